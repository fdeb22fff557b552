//! `physdev`: ports of a bridge.

use super::{Condition, Extension, Listed, Match, Parsed, field};
use crate::iptables::Negatable;
use crate::iptables::text::{Options, Printer};
use crate::walk::{Interface, Trace, Walker};

/// Options of `physdev`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Physdev {
    /// `--physdev-in`.
    pub input: Option<Negatable<Box<str>>>,
    /// `--physdev-is-in`.
    pub is_input: Option<Negatable<()>>,
    /// `--physdev-out`.
    pub output: Option<Negatable<Box<str>>>,
    /// `--physdev-is-out`.
    pub is_output: Option<Negatable<()>>,
    /// `--physdev-is-bridged`.
    pub is_bridged: Option<Negatable<()>>,
}

/// `physdev` with the names as numbers.
#[derive(Debug, Clone)]
pub(in crate::iptables) struct BridgePorts {
    input: Option<Negatable<Name>>,
    output: Option<Negatable<Name>>,
    is_input: Option<bool>,
    is_output: Option<bool>,
    is_bridged: Option<bool>,
}

/// The name or name prefix of an interface.
#[derive(Debug, Clone, Copy)]
struct Name {
    value: u128,
    mask: u128,
}

pub(super) const PHYSDEV: Extension = Extension {
    name: "physdev",
    options: &["--physdev-in", "--physdev-out", "--physdev-is-in", "--physdev-is-out", "--physdev-is-bridged"],
    parse,
    parse_listed,
};

fn parse(options: &Options<'_>) -> Parsed {
    let mut physdev = Physdev::default();
    for option in options.iter() {
        let interface = || option.negatable("interface", |text| Some(Box::from(text))).map(Some);
        match option.name {
            "--physdev-in" => physdev.input = interface()?,
            "--physdev-out" => physdev.output = interface()?,
            "--physdev-is-in" => physdev.is_input = Some(option.flag()),
            "--physdev-is-out" => physdev.is_output = Some(option.flag()),
            _ => physdev.is_bridged = Some(option.flag()),
        }
    }
    Ok((!options.is_empty()).then(|| Match::Physdev(Box::new(physdev))))
}

/// `PHYSDEV match --physdev-is-in`, `PHYSDEV match ! --physdev-in veth0`.
fn parse_listed(words: &[&str], negated: bool) -> Listed {
    let words = words.strip_prefix(&["PHYSDEV", "match"]).filter(|_| !negated)?;
    let mut found = Physdev::default();
    let mut taken = 0;
    loop {
        let (negated, rest) = super::listed_negation(words.get(taken..).unwrap_or_default());
        let flag = Some(Negatable { negated, value: () });
        let port = |name: &str| Some(Negatable { negated, value: Box::from(name) });
        let mut length = 1;
        match rest {
            ["--physdev-in", name, ..] => (found.input, length) = (port(name), 2),
            ["--physdev-out", name, ..] => (found.output, length) = (port(name), 2),
            ["--physdev-is-in", ..] => found.is_input = flag,
            ["--physdev-is-out", ..] => found.is_output = flag,
            ["--physdev-is-bridged", ..] => found.is_bridged = flag,
            _ => break,
        }
        taken += usize::from(negated) + length;
    }
    (taken > 0).then(|| (Match::Physdev(Box::new(found)), 2 + taken))
}

impl Physdev {
    pub(super) fn print(&self, out: &mut Printer) {
        out.push(" -m physdev");
        let flag = |out: &mut Printer, name: &str, given: Option<Negatable<()>>| {
            if let Some(given) = given {
                out.option(name, given.negated);
            }
        };
        flag(out, " --physdev-is-in", self.is_input);
        out.word(" --physdev-in ", self.input.as_ref());
        flag(out, " --physdev-is-out", self.is_output);
        out.word(" --physdev-out ", self.output.as_ref());
        flag(out, " --physdev-is-bridged", self.is_bridged);
    }

    pub(super) fn compile(&self) -> Condition {
        let side = |side: &Option<Negatable<Box<str>>>| {
            side.as_ref().map(|side| {
                let (shift, value) = field::name_bits(&side.value);
                let mask = u128::MAX.checked_shl(u32::from(shift)).unwrap_or(0);
                Negatable { negated: side.negated, value: Name { value, mask } }
            })
        };
        Condition::Physdev(Box::new(BridgePorts {
            input: side(&self.input),
            output: side(&self.output),
            is_input: self.is_input.map(|flag| !flag.negated),
            is_output: self.is_output.map(|flag| !flag.negated),
            is_bridged: self.is_bridged.map(|flag| !flag.negated),
        }))
    }
}

impl BridgePorts {
    /// `physdev_mt`.
    pub(super) fn holds<T: Trace>(&self, walker: &Walker<T>) -> bool {
        let packet = &walker.packet;
        let bridge = packet.bridge.unwrap_or_default();
        let is = |asked: Option<bool>, is: bool| asked.is_none_or(|asked| asked == is);
        if !is(self.is_bridged, bridge.bridged)
            || !is(self.is_input, bridge.input.is_some())
            || !is(self.is_output, bridge.output.is_some())
        {
            return false;
        }
        // A packet that crosses no bridge does not match any name, not even `+`.
        let named = |asked: Option<Negatable<Name>>, port: Option<Interface>| {
            asked.is_none_or(|Negatable { negated, value }| {
                let number = Interface::number(port);
                let fits = |number: u128| number & value.mask == value.value;
                walker.trace.asked_name(number, fits);
                let same = packet.bridge.is_some() && fits(number);
                same ^ negated
            })
        };
        named(self.input, bridge.input) && named(self.output, bridge.output)
    }
}
