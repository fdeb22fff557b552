//! `MARK` and `CONNMARK`: changes of the mark of the packet, or of its connection.

use super::{Parsed, Target};
use crate::iptables::Masked;
use crate::iptables::text::{Options, Printer, kept_options, values};
use crate::walk::{Connection, Trace, Walker};

/// Returns the change of an option: the bits of the mask are cleared, then those of the value flipped. All spellings are equivalent to a
/// `--set-xmark`.
fn change(option: &str, text: &str) -> Option<Masked> {
    match option {
        "--set-xmark" => values::masked(text),
        "--set-mark" => values::masked(text).map(|mark| Masked { mask: mark.mask | mark.value, ..mark }),
        "--or-mark" => values::number(text).map(Masked::bits),
        "--xor-mark" => values::number(text).map(|value| Masked { value, mask: 0 }),
        "--and-mark" => values::number(text).map(|kept| Masked { value: 0, mask: !kept }),
        _ => None,
    }
}

pub(super) fn parse(options: &Options<'_>) -> Parsed {
    const SPELLINGS: [&str; 5] = ["--set-xmark", "--set-mark", "--or-mark", "--xor-mark", "--and-mark"];
    let mut found = None;
    for option in options.iter() {
        if !SPELLINGS.contains(&option.name) {
            return Ok(None);
        }
        found = Some(Target::Mark(option.read("mark", |text| change(option.name, text))?));
    }
    Ok(found)
}

/// `or 0x4000`, `xset 0x4000/0xff00`: `libxt_MARK` prints a mark in its shortest spelling.
pub(super) fn parse_listed(how: &str, bits: &str) -> Option<Masked> {
    let option = match how {
        "or" => "--or-mark",
        "xor" => "--xor-mark",
        "and" => "--and-mark",
        "set" => "--set-mark",
        "xset" => "--set-xmark",
        _ => return None,
    };
    change(option, bits)
}

pub(super) fn print(mark: Masked, out: &mut Printer) {
    out.push(" -j MARK --set-xmark ");
    out.hex(mark.value);
    out.push("/");
    out.hex(mark.mask);
}

/// Returns the mark after a change.
pub(super) fn apply(mark: u32, change: Masked) -> u32 {
    (mark & !change.mask) ^ change.value
}

/// The action of `CONNMARK` (`connmark_tg_shift` in `xt_connmark.c`, without shifts).
#[derive(Debug, Clone, Copy)]
pub(in crate::iptables) enum ConnmarkChange {
    /// The connection's mark: bits cleared, then flipped.
    Set(Masked),
    /// From the packet's mark to the connection's.
    Save { connection: u32, packet: u32 },
    /// From the connection's mark to the packet's.
    Restore { connection: u32, packet: u32 },
}

impl ConnmarkChange {
    /// Changes the marks of a packet and its connection; no effect without a connection.
    pub(in crate::iptables) fn apply<T: Trace>(self, walker: &mut Walker<T>) {
        let of_packet = walker.packet.mark;
        let Some(Connection { mark, .. }) = walker.tracked_mut().map(|tracked| &mut tracked.connection) else { return };
        match self {
            Self::Set(change) => *mark = apply(*mark, change),
            Self::Save { connection, packet } => *mark = (*mark & !connection) ^ (of_packet & packet),
            Self::Restore { connection, packet } => {
                walker.packet.mark = (of_packet & !packet) ^ (*mark & connection);
            }
        }
    }
}

/// Options after `--save-mark` and `--restore-mark` of `CONNMARK`. Shifts are not modelled.
const MASKS: [&str; 3] = ["--mask", "--ctmask", "--nfmask"];

/// Parses the options of `CONNMARK`; nothing if one is not modelled.
pub(super) fn connmark(text: &str) -> Option<ConnmarkChange> {
    let options = kept_options(text)?;
    let masks = || {
        let of = |name: &str, fallback: u32| {
            let found = options.iter().find(|option| option.name == name);
            found.map_or(Some(fallback), |option| values::number(option.argument()?))
        };
        let both = of("--mask", u32::MAX)?;
        Some((of("--ctmask", both)?, of("--nfmask", both)?))
    };
    let first = options.first()?;
    let more = if matches!(first.name, "--save-mark" | "--restore-mark") { &MASKS[..] } else { &[] };
    if options.iter().any(|option| option.negated) || options[1..].iter().any(|option| !more.contains(&option.name)) {
        return None;
    }
    Some(match first.name {
        "--save-mark" => masks().map(|(connection, packet)| ConnmarkChange::Save { connection, packet })?,
        "--restore-mark" => masks().map(|(connection, packet)| ConnmarkChange::Restore { connection, packet })?,
        spelling => ConnmarkChange::Set(change(spelling, first.argument()?)?),
    })
}
