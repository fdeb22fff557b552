//! Rejection of unsafe text in rules: options with effects outside the rule, and words that `iptables-restore` splits differently from this
//! parser.
//!
//! `iptables-restore` passes the words of a line to getopt, so a rule can contain every option of `iptables` itself, abbreviated and
//! anywhere: `--modp=/tmp/x` runs a program, `--hel` prints help and loads nothing.

use std::net::IpAddr;

use crate::iptables::text::{Fault, Word};

/// Options of iptables itself, without hyphens, that no rule may contain.
const COMMANDS: [&str; 22] = [
    "append",
    "check",
    "delete",
    "delete-chain",
    "exact",
    "flush",
    "help",
    "insert",
    "line-numbers",
    "list",
    "list-rules",
    "modprobe",
    "new-chain",
    "numeric",
    "policy",
    "rename-chain",
    "replace",
    "table",
    "verbose",
    "version",
    "wait",
    "zero",
];

/// Options of rules, without hyphens. They must be written in full: an abbreviation could be an option of a match.
const GENERAL: [&str; 14] = [
    "destination",
    "fragments",
    "goto",
    "in-interface",
    "ipv4",
    "ipv6",
    "jump",
    "match",
    "out-interface",
    "protocol",
    "proto",
    "set-counters",
    "source",
    "src",
];

/// Options of matches that getopt finds although they are also abbreviations of general options.
const OWN_OF_MATCHES: [&str; 3] = ["set", "pol", "fragment"];

/// Options of matches that refer to something outside the rules, and what that is.
const ELSEWHERE: [(&str, &str); 2] = [("object-pinned", "a file of the host"), ("path", "a control group of the host")];

/// Options of matches and targets whose value is an address, for which iptables also accepts a name, which it resolves on the host.
const ADDRESSES: [&str; 11] = [
    "ctorigdst",
    "ctorigsrc",
    "ctrepldst",
    "ctreplsrc",
    "dst-pfx",
    "gateway",
    "on-ip",
    "src-pfx",
    "to",
    "tunnel-dst",
    "tunnel-src",
];

/// Options of matches and targets whose value is a number, for which iptables also accepts a name, which it looks up in a file of the host:
/// what the name is, and what the number is.
const NUMBERS: [(&[&str], &str, &str); 4] = [
    (&["uid-owner"], "the name of a user", "ID"),
    (&["gid-owner"], "the name of a user group", "ID"),
    (
        &[
            "ctorigsrcport",
            "ctorigdstport",
            "ctreplsrcport",
            "ctrepldstport",
            "destination-port",
            "destination-ports",
            "dport",
            "dports",
            "source-port",
            "source-ports",
            "sport",
            "sports",
            "ports",
            "vport",
            "vportctl",
        ],
        "the name of a service",
        "port",
    ),
    (&["realm", "src-group", "dst-group"], "a name from /etc/iproute2", "number"),
];

/// The longest line that `iptables-restore` accepts, without its line feed: it reads lines into a buffer of 10,240 bytes
/// (`iptables/iptables-restore.c`), and treats the rest of a longer one as another line.
pub const MAX_LINE_BYTES: usize = 10_238;

/// Options whose next word may be any text.
const TEXTS: [&str; 6] = ["--comment", "--log-prefix", "--nflog-prefix", "--string", "--hex-string", "--u32"];

/// Checks the words of a line.
pub(super) fn check(line: &str, words: &[Word<'_>]) -> Result<(), Fault> {
    if line.len() > MAX_LINE_BYTES {
        let message =
            format!("iptables-restore splits lines longer than {MAX_LINE_BYTES} bytes: this one has {}", line.len());
        return Err(Fault::new(0, message));
    }
    if let Some((at, letter)) = line.char_indices().find(|(_, letter)| letter.is_control() && *letter != '\t') {
        return Err(Fault::new(at, format!("control character {letter:?} in a rule")));
    }
    // `iptables-restore` only recognises double quotes, also within a word (`add_param_to_argv` in iptables/xshared.c).
    let is_forked =
        |word: &&Word<'_>| word.raw.starts_with('\'') || (!word.raw.starts_with('"') && word.raw.contains('"'));
    if let Some(word) = words.iter().find(is_forked) {
        let message = "iptables parses these quotes differently: put double quotes around a whole word";
        return Err(Fault::new(word.column, message));
    }
    let mut before = None;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if TEXTS.contains(&word.raw) {
            text_option(word, before)?;
            before = words.next();
            continue;
        }
        if word.text.starts_with('-') && word.text.len() > 1 {
            option(word)?;
            named_option(word, words.clone().next())?;
        }
        before = Some(word);
    }
    Ok(())
}

/// Checks an option whose next word is arbitrary text. After another option it could be that option's value, and the next word an option:
/// `--name --comment -M/tmp/x`.
fn text_option(word: &Word<'_>, before: Option<&Word<'_>>) -> Result<(), Fault> {
    match before.filter(|before| before.text.starts_with('-')) {
        Some(before) => {
            let message = format!("iptables may take `{}` for the value of `{}`", word.raw, before.raw);
            Err(Fault::new(word.column, message))
        }
        None => Ok(()),
    }
}

/// Checks an option with an address or a number, for which iptables would look up a name on the host.
fn named_option(word: &Word<'_>, next: Option<&Word<'_>>) -> Result<(), Fault> {
    let Some(long) = word.text.strip_prefix("--") else { return Ok(()) };
    let (name, own) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
    let value = own.map(|value| (value, word.column)).or_else(|| next.map(|next| (&*next.text, next.column)));
    let Some((value, column)) = value else { return Ok(()) };
    let is_short = |option: &str| name.len() > 2 && option.starts_with(name);
    if ADDRESSES.iter().any(|option| *option == name || is_short(option)) {
        return match value.split(',').map(|part| part.split('/').next().unwrap_or_default()).find(|part| is_host(part))
        {
            Some(host) => Err(Fault::new(column, format!("`{host}` is the name of a host: write its address"))),
            None => Ok(()),
        };
    }
    if GENERAL.contains(&name) || name == "dst" {
        return Ok(());
    }
    let is_name = |text: &&str| text.starts_with(char::is_alphabetic);
    let of = NUMBERS.iter().find(|(options, ..)| options.iter().any(|option| *option == name || is_short(option)));
    match of.and_then(|(_, what, number)| Some((what, number, value.split([',', ':']).find(is_name)?))) {
        Some((what, number, text)) => Err(Fault::new(column, format!("`{text}` is {what}: write its {number}"))),
        None => Ok(()),
    }
}

/// Returns whether iptables would resolve an address as a host name. A number is an offset of `--to`, or an address in a form that
/// `inet_aton` accepts.
fn is_host(address: &str) -> bool {
    let is_number = address.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    !is_number && address.parse::<IpAddr>().is_err()
}

/// Checks a word that getopt would take as an option, or as its value.
fn option(word: &Word<'_>) -> Result<(), Fault> {
    let fault = |message: String| Err(Fault::new(word.column, message));
    let text = &*word.text;
    let Some(long) = text.strip_prefix("--") else {
        let flags = text[1..].trim_start_matches(|letter: char| "46bfhnvwWx".contains(letter));
        let is_named = text[1..].starts_with(char::is_alphabetic);
        return match flags.starts_with('M') {
            true => fault(format!("`{text}` names a program that iptables would run on the host")),
            false if is_named && word.raw != text => fault(format!("the option `{text}` is quoted")),
            false => Ok(()),
        };
    };
    let name = long.split('=').next().unwrap_or_default();
    let shortens = |option: &str| !name.is_empty() && option.starts_with(name);
    if name.starts_with("mo") && shortens("modprobe") {
        return fault(format!("`{text}` names a program that iptables would run on the host"));
    }
    if let Some((_, what)) = ELSEWHERE.iter().find(|(option, _)| name.len() > 2 && shortens(option)) {
        return fault(format!("`{text}` names {what}"));
    }
    if word.raw != text {
        return fault(format!("the option `{text}` is quoted"));
    }
    if GENERAL.contains(&name) || name == "dst" || OWN_OF_MATCHES.contains(&name) {
        return Ok(());
    }
    if COMMANDS.into_iter().any(shortens) {
        return fault(format!("`{text}` is an iptables command, not a rule option"));
    }
    match GENERAL.into_iter().find(|option| shortens(option)) {
        Some(option) => fault(format!("`{text}` is short for `--{option}`: write that")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::parse_rule;
    use crate::cluster::Family;

    #[rstest]
    #[case::program("-M /tmp/x -j ACCEPT", "`-M` names a program that iptables would run on the host")]
    #[case::attached("-M/tmp/x -j ACCEPT", "`-M/tmp/x` names a program that iptables would run on the host")]
    #[case::among_flags("-vM /tmp/x", "`-vM` names a program that iptables would run on the host")]
    #[case::long("-j LOG --modprobe=/tmp/x", "`--modprobe=/tmp/x` names a program that iptables would run on the host")]
    #[case::shortened("-j LOG --mo /tmp/x", "`--mo` names a program that iptables would run on the host")]
    #[case::quoted("-m foo --bar \"-M\" /tmp/x", "`-M` names a program that iptables would run on the host")]
    #[case::quoted_long(
        "-m foo --bar \"--modprobe\" /tmp/x",
        "`--modprobe` names a program that iptables would run on the host"
    )]
    #[case::quoted_flag("-m foo --bar \"-x\"", "the option `-x` is quoted")]
    #[case::single_quotes(
        "-m comment --comment 'a -M /tmp/x b'",
        "iptables parses these quotes differently: put double quotes around a whole word"
    )]
    #[case::within_a_word(
        "-m foo --bar -\"M\" /tmp/x",
        "iptables parses these quotes differently: put double quotes around a whole word"
    )]
    #[case::after_quotes("-m comment --comment \"a\"-M", "`-M` names a program that iptables would run on the host")]
    #[case::help("-j LOG --hel", "`--hel` is an iptables command, not a rule option")]
    #[case::list("-j LOG --list", "`--list` is an iptables command, not a rule option")]
    #[case::table("-j LOG --table nat", "`--table` is an iptables command, not a rule option")]
    #[case::short_general("-m foo --sour 10.0.0.1", "`--sour` is short for `--source`: write that")]
    #[case::pinned("-m bpf --object-pinned /sys/fs/bpf/x", "`--object-pinned` names a file of the host")]
    #[case::pinned_shortened("-m bpf --object=/sys/fs/bpf/x", "`--object=/sys/fs/bpf/x` names a file of the host")]
    #[case::cgroup("-m cgroup --path user.slice", "`--path` names a control group of the host")]
    #[case::gateway("-j TEE --gateway localhost", "`localhost` is the name of a host: write its address")]
    #[case::gateway_shortened("-j TEE --gate=localhost", "`localhost` is the name of a host: write its address")]
    #[case::origin(
        "-m conntrack --ctorigsrc 10.0.0.1,my-host/24",
        "`my-host` is the name of a host: write its address"
    )]
    #[case::mapped("-j NETMAP --to example.com/24", "`example.com` is the name of a host: write its address")]
    #[case::user("-m owner --uid-owner root -j DROP", "`root` is the name of a user: write its ID")]
    #[case::user_shortened("-m owner --uid=root", "`root` is the name of a user: write its ID")]
    #[case::group("-m owner ! --gid-owner daemon", "`daemon` is the name of a user group: write its ID")]
    #[case::service("-p tcp -m tcp --dport http", "`http` is the name of a service: write its port")]
    #[case::services("-p udp -m multiport --dports 53,ntp", "`ntp` is the name of a service: write its port")]
    #[case::range("-p tcp --sport 1024:http-alt", "`http-alt` is the name of a service: write its port")]
    #[case::original_port("-m conntrack --ctorigdstport http", "`http` is the name of a service: write its port")]
    #[case::realm("-m realm --realm cosmos", "`cosmos` is a name from /etc/iproute2: write its number")]
    #[case::library("-m ../x --y", "invalid match name `../x`")]
    #[case::library_of_target("-j ../x --y", "invalid target name `../x`")]
    #[case::value_of_another(
        "-m recent --set --name --comment -M/tmp/x -j DROP",
        "iptables may take `--comment` for the value of `--name`"
    )]
    #[case::target_after_a_value(
        "-m recent --set --name --comment -j IDLETIMER --timeout 600 --label x",
        "iptables may take `--comment` for the value of `--name`"
    )]
    #[case::value_in_quotes("-m helper \"--helper\" --log-prefix -h", "the option `--helper` is quoted")]
    #[case::bell("-m comment --comment \"a\x07\"", "control character '\\u{7}' in a rule")]
    fn what_reaches_beyond_a_rule_is_rejected(#[case] rule: &str, #[case] expected: &str) {
        assert_eq!(parse_rule(rule, Family::Ipv4).map_err(|error| error.message), Err(expected.to_owned()));
    }

    #[test]
    fn a_line_that_would_be_cut_apart_is_rejected() {
        let rule = |letters: usize| format!("-m comment --comment {}", "a".repeat(letters));
        let shortest = rule(0).len();
        assert_eq!(parse_rule(&rule(super::MAX_LINE_BYTES - shortest), Family::Ipv4).err(), None);
        let error = parse_rule(&rule(super::MAX_LINE_BYTES - shortest + 1), Family::Ipv4).unwrap_err();
        assert_eq!(error.message, "iptables-restore splits lines longer than 10238 bytes: this one has 10239");
    }

    #[rstest]
    #[case::comment("-m comment --comment \"-M --modprobe -h\" -j ACCEPT")]
    #[case::bare_comment("-m comment --comment -M -j ACCEPT")]
    #[case::prefix("-j LOG --log-prefix \"--help \"")]
    #[case::apostrophe("-m comment --comment \"the node's\" -j ACCEPT")]
    #[case::escaped("-m comment --comment \"a \\\"b\\\" \\\\ c\" -j ACCEPT")]
    #[case::recent("-m recent --set --name x --rsource")]
    #[case::policy("-m policy --dir in --pol ipsec --proto esp")]
    #[case::users("-m owner --uid-owner 0-999 --gid-owner 65534")]
    #[case::ports("-p tcp -m multiport --dports 80,443,1024:65535")]
    #[case::addresses_by_long_names("--source 10.0.0.0/8 --dst 10.0.0.1")]
    #[case::realms("-m realm --realm 0x1/0xff -m devgroup --src-group 0x1")]
    #[case::negative("-m u32 --u32 \"0 >> 1 = -1\"")]
    #[case::addresses("-m conntrack --ctorigsrc 10.0.0.1/32 -j TEE --gateway 10.0.0.9")]
    #[case::offset("-m string --string x --algo bm --to 65535")]
    #[case::long_names("--source 10.0.0.1 --protocol tcp --jump ACCEPT")]
    fn what_only_looks_like_it_passes(#[case] rule: &str) {
        assert_eq!(parse_rule(rule, Family::Ipv4).err(), None);
    }
}
