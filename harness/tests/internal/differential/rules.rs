//! Random other rules, in the format of iptables-save.

use std::fmt::Write;
use std::net::IpAddr;

use svclab_rules::cluster::Family;
use svclab_rules::iptables::evaluate::Program;
use svclab_rules::iptables::{parse, print};

use super::dice::Dice;

/// Addresses, ports and interfaces that rules may match.
pub(crate) struct Vocabulary<'a> {
    pub(crate) family: Family,
    /// Addresses of the family that flows go to and come from.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) ports: &'a [u16],
    /// Interfaces of the machine.
    pub(crate) interfaces: Vec<String>,
}

/// A table with its hooks, and the number of user-defined chains that it gets.
struct Stage {
    table: &'static str,
    hooks: &'static [&'static str],
}

const STAGES: [Stage; 4] = [
    Stage { table: "raw", hooks: &["PREROUTING", "OUTPUT"] },
    Stage { table: "mangle", hooks: &["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"] },
    Stage { table: "filter", hooks: &["INPUT", "FORWARD", "OUTPUT"] },
    Stage { table: "nat", hooks: &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"] },
];

/// Rules for some tables that a kernel accepts.
pub(crate) fn other(dice: &mut Dice, words: &Vocabulary<'_>) -> String {
    let mut text = String::new();
    for stage in STAGES {
        if dice.one_in(2) {
            table(&mut text, dice, words, &stage);
        }
    }
    sound(&text, words.family)
}

/// The same without rules that no kernel accepts at their position.
fn sound(text: &str, family: Family) -> String {
    let mut rules = parse(text, family).unwrap_or_else(|errors| panic!("{errors:?}\n{text}")).rules;
    while let Err(errors) = Program::compile(&rules) {
        for error in errors.iter().rev() {
            let place = error.chain.as_ref().zip(error.rule);
            let (chain, rule) = place.unwrap_or_else(|| panic!("{error}\n{text}"));
            let mut chains = rules.table_mut(error.table).chains.iter_mut();
            let chain = chains.find(|one| one.name == *chain).expect("an error names a chain");
            chain.rules.remove(rule - 1);
        }
    }
    print(&rules)
}

fn table(text: &mut String, dice: &mut Dice, words: &Vocabulary<'_>, stage: &Stage) {
    let own: Vec<String> = (0..dice.below(4)).map(|number| format!("CHAIN-{number}")).collect();
    let _ = writeln!(text, "*{}", stage.table);
    for hook in stage.hooks {
        let drops = stage.table == "filter" && dice.one_in(16);
        let _ = writeln!(text, ":{hook} {} [0:0]", if drops { "DROP" } else { "ACCEPT" });
    }
    for chain in &own {
        let _ = writeln!(text, ":{chain} - [0:0]");
    }
    for hook in stage.hooks {
        for _ in 0..dice.below(3) {
            rule(text, dice, words, stage, hook, &own);
        }
    }
    for (number, chain) in own.iter().enumerate() {
        for _ in 0..dice.below(5) {
            rule(text, dice, words, stage, chain, &own[number + 1..]);
        }
    }
    text.push_str("COMMIT\n");
}

fn rule(text: &mut String, dice: &mut Dice, words: &Vocabulary<'_>, stage: &Stage, chain: &str, next: &[String]) {
    let icmp = if words.family == Family::Ipv4 { "icmp" } else { "ipv6-icmp" };
    let protocol = *dice.pick(&["", "", "", "tcp", "tcp", "tcp", "udp", "udp", "udp", "sctp", icmp]);
    let target = target(dice, words, stage, chain, next, protocol);
    let conditions = conditions(dice, words, chain, protocol);
    // A rule that ends every packet's path leaves nothing to compare.
    let is_final = ["DROP", "REJECT", "ACCEPT"].iter().any(|word| target.contains(word));
    let is_often = is_final && conditions.len() < 2;
    let rare = if is_often { condition(dice, words) } else { String::new() };
    let rare = if conditions.iter().any(|one| extension(one) == extension(&rare)) { String::new() } else { rare };
    let all: Vec<&str> = conditions.iter().map(String::as_str).chain([rare.as_str()]).collect();
    let words: Vec<&str> = all.iter().flat_map(|one| one.split_whitespace()).collect();
    let _ = writeln!(text, "-A {chain} {}{target}", words.iter().map(|word| format!("{word} ")).collect::<String>());
}

fn not(dice: &mut Dice) -> &'static str {
    if dice.one_in(4) { "! " } else { "" }
}

/// The conditions in the order in which iptables-save writes them: addresses, interfaces, protocol, extensions.
fn conditions(dice: &mut Dice, words: &Vocabulary<'_>, chain: &str, protocol: &str) -> Vec<String> {
    let mut all = Vec::new();
    for side in ["-s", "-d"] {
        if dice.one_in(4) {
            let range = range(dice, words);
            // nf_tables rejects a rule that matches no address.
            let not = if range.ends_with("/0") { "" } else { not(dice) };
            all.push(format!("{not}{side} {range}"));
        }
    }
    let interfaces: Vec<&str> =
        ["eth0", "lo", "veth+", "cni0"].into_iter().chain(words.interfaces.iter().map(String::as_str)).collect();
    if dice.one_in(6) && !["OUTPUT", "POSTROUTING"].contains(&chain) {
        all.push(format!("{}-i {}", not(dice), dice.pick(&interfaces)));
    }
    if dice.one_in(6) && !["PREROUTING", "INPUT"].contains(&chain) {
        all.push(format!("{}-o {}", not(dice), dice.pick(&interfaces)));
    }
    if !protocol.is_empty() {
        all.push(format!("-p {protocol}"));
        all.extend(protocol_match(dice, words, protocol));
    } else if dice.one_in(6) {
        all.push(format!("! -p {}", dice.pick(&["tcp", "udp", "sctp"])));
    }
    let limits: &[&str] = match chain {
        "PREROUTING" | "INPUT" => &["in"],
        "OUTPUT" | "POSTROUTING" => &["out"],
        "FORWARD" => &["in", "out"],
        // It is unknown from where a user-defined chain is reached.
        _ => &[],
    };
    if !limits.is_empty() && dice.one_in(12) {
        let side = dice.pick(&["--src-type", "--dst-type"]);
        all.push(format!("-m addrtype {}{side} LOCAL --limit-iface-{}", not(dice), dice.pick(limits)));
    }
    while dice.one_in(2) {
        let next = condition(dice, words);
        if !all.iter().any(|one| extension(one) == extension(&next)) {
            all.push(next);
        }
    }
    all
}

/// The name after `-m`; iptables accepts each only once, and not both `mark` and `connmark`.
fn extension(condition: &str) -> Option<&str> {
    let name = condition.strip_prefix("-m ")?.split(' ').next()?;
    Some(name.strip_prefix("conn").filter(|name| *name == "mark").unwrap_or(name))
}

fn protocol_match(dice: &mut Dice, words: &Vocabulary<'_>, protocol: &str) -> Option<String> {
    match protocol {
        "icmp" => return Some(format!("-m icmp {}--icmp-type {}", not(dice), dice.pick(&["3", "3/3", "3/10", "8"]))),
        "ipv6-icmp" => return Some(format!("-m icmp6 {}--icmpv6-type {}", not(dice), dice.pick(&["1", "1/4", "128"]))),
        _ => {}
    }
    let port = *dice.pick(words.ports);
    let not = not(dice);
    Some(match dice.below(7) {
        0 | 1 => format!("-m {protocol} {not}--dport {port}"),
        2 => format!("-m {protocol} {not}--dport {}:{}", port.saturating_sub(500), port),
        // No range that a source port chosen by the kernel at random may or may not be in: that is not predicted.
        3 => format!("-m {protocol} {not}--sport {}", dice.pick(&["1024:65535", "80", "8080"])),
        4 if dice.one_in(2) => format!("-m multiport {not}--ports {port},53"),
        4 => format!("-m multiport {not}--dports {port},8000:9999"),
        5 if protocol == "tcp" => {
            format!("-m tcp {not}--tcp-flags {}", dice.pick(&["FIN,SYN,RST,ACK SYN", "SYN,ACK SYN,ACK", "RST RST"]))
        }
        _ => return None,
    })
}

/// A condition that requires no protocol.
fn condition(dice: &mut Dice, words: &Vocabulary<'_>) -> String {
    let not = not(dice);
    let address = *dice.pick(&words.addresses);
    match dice.below(15) {
        0 => format!(
            "-m mark {not}--mark {}",
            dice.pick(&["0x4000/0x4000", "0x1/0x1", "0x0", "0x10/0xf0", "0x8000/0x8000"])
        ),
        1 => format!("-m connmark {not}--mark {}", dice.pick(&["0x1/0x1", "0x0", "0x20/0xf0"])),
        2 | 3 => {
            let states =
                ["NEW", "RELATED,ESTABLISHED", "INVALID", "UNTRACKED", "DNAT", "SNAT", "NEW,DNAT", "ESTABLISHED"];
            format!("-m conntrack {not}--ctstate {}", dice.pick(&states))
        }
        4 => format!(
            "-m conntrack {not}--{} {address}",
            dice.pick(&["ctorigsrc", "ctorigdst", "ctreplsrc", "ctrepldst"])
        ),
        5 => format!("-m conntrack {not}--ctorigdstport {}", dice.pick(words.ports)),
        6 => format!("-m conntrack --ctdir {}", dice.pick(&["ORIGINAL", "REPLY"])),
        7 | 8 => {
            let side = *dice.pick(&["--src-type", "--dst-type"]);
            let kinds: &[&str] =
                if words.family == Family::Ipv4 { &["LOCAL", "UNICAST", "BROADCAST"] } else { &["LOCAL", "UNICAST"] };
            format!("-m addrtype {not}{side} {}", dice.pick(kinds))
        }
        9 => format!(
            "-m statistic --mode random {not}--probability {}",
            dice.pick(&["0.5", "0.25", "0.9", "0.0", "1.0"])
        ),
        10 => format!("-m statistic --mode nth {not}--every {} --packet 0", dice.pick(&["2", "3", "1"])),
        11 => {
            let (first, last) = if words.family == Family::Ipv4 {
                *dice.pick(&[("10.0.0.0", "10.96.255.255"), ("172.18.0.2", "172.18.0.2"), ("0.0.0.0", "172.0.0.0")])
            } else {
                *dice.pick(&[("fd00:10:96::", "fd00:10:97::"), ("fd00:172:18::2", "fd00:172:18::2")])
            };
            format!("-m iprange {not}--{} {first}-{last}", dice.pick(&["src-range", "dst-range"]))
        }
        13 => {
            let port = words.interfaces.last().map_or("veth0", String::as_str);
            let asked =
                [format!("--physdev-in {port}"), "--physdev-is-in".to_owned(), "--physdev-is-bridged".to_owned()];
            format!("-m physdev {not}{}", dice.pick(&asked))
        }
        12 => {
            // No client is added to the list that is checked, and the other list is never checked: list contents are not predicted.
            let mask = if words.family == Family::Ipv4 {
                "255.255.255.255"
            } else {
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
            };
            let asked = *dice.pick(&[
                "--rcheck --seconds 60 --name UNUSED",
                "--update --name UNUSED",
                "--set --name EVERYBODY",
            ]);
            format!("-m recent {not}{asked} --mask {mask} --{}", dice.pick(&["rsource", "rdest"]))
        }
        _ => format!("-m state {not}--state {}", dice.pick(&["NEW", "RELATED,ESTABLISHED", "INVALID"])),
    }
}

/// An address, the range that it is in, or a mask.
fn range(dice: &mut Dice, words: &Vocabulary<'_>) -> String {
    let address = *dice.pick(&words.addresses);
    match (address, dice.below(5)) {
        (IpAddr::V4(_), 0 | 1) => format!("{address}/32"),
        (IpAddr::V6(_), 0 | 1) => format!("{address}/128"),
        (IpAddr::V4(_), 2) => format!("{address}/255.0.255.0"),
        (IpAddr::V6(_), 2) => format!("{address}/ffff::ffff"),
        (IpAddr::V4(_), _) => format!("{address}/{}", dice.pick(&[8, 12, 16, 24, 25, 31, 0])),
        (IpAddr::V6(_), _) => format!("{address}/{}", dice.pick(&[16, 48, 64, 96, 127, 0])),
    }
}

fn target(
    dice: &mut Dice,
    words: &Vocabulary<'_>,
    stage: &Stage,
    chain: &str,
    next: &[String],
    protocol: &str,
) -> String {
    if !next.is_empty() && dice.one_in(3) {
        return format!("-{} {}", dice.pick(&["j", "j", "g"]), dice.pick(next));
    }
    let with_port = protocol == "tcp" || protocol == "udp";
    let only_here = match stage.table {
        "raw" => dice.pick(&["-j NOTRACK", "-j CT --notrack", "-j DROP"]).to_string(),
        "filter" => reject(dice, words.family, protocol),
        "nat" => translation(dice, words, chain, with_port),
        _ => "-j DROP".to_owned(),
    };
    match dice.below(10) {
        0..=3 => only_here,
        4 => "-j ACCEPT".to_owned(),
        5 => "-j RETURN".to_owned(),
        6 => {
            let marks =
                ["--set-xmark 0x1/0x1", "--set-xmark 0x4000/0x4000", "--set-xmark 0x0/0xffffffff", "--or-mark 0x10"];
            format!("-j MARK {}", dice.pick(&marks))
        }
        7 if stage.table == "mangle" => {
            let changes = ["--set-xmark 0x1/0x1", "--save-mark", "--restore-mark", "--set-xmark 0x20/0xf0"];
            format!("-j CONNMARK {}", dice.pick(&changes))
        }
        8 => String::new(),
        _ => format!("-j MARK --set-xmark {}", dice.pick(&["0x8000/0x8000", "0x1/0x0", "0x4000/0xffffffff"])),
    }
}

fn reject(dice: &mut Dice, family: Family, protocol: &str) -> String {
    let kinds: &[&str] = if family == Family::Ipv4 {
        &[
            "icmp-port-unreachable",
            "icmp-net-unreachable",
            "icmp-host-unreachable",
            "icmp-proto-unreachable",
            "icmp-net-prohibited",
            "icmp-host-prohibited",
            "icmp-admin-prohibited",
        ]
    } else {
        &[
            "icmp6-port-unreachable",
            "icmp6-no-route",
            "icmp6-addr-unreachable",
            "icmp6-adm-prohibited",
            "icmp6-policy-fail",
            "icmp6-reject-route",
        ]
    };
    match dice.below(4) {
        0 => "-j DROP".to_owned(),
        1 if protocol == "tcp" => "-j REJECT --reject-with tcp-reset".to_owned(),
        _ => format!("-j REJECT --reject-with {}", dice.pick(kinds)),
    }
}

/// A target of the table `nat` for a chain; other chains get any, and lose it where it is not valid.
fn translation(dice: &mut Dice, words: &Vocabulary<'_>, chain: &str, with_port: bool) -> String {
    let address = *dice.pick(&words.addresses);
    let port = *dice.pick(words.ports);
    let bracketed = if address.is_ipv6() { format!("[{address}]") } else { address.to_string() };
    let to = if with_port && dice.one_in(2) { format!("{bracketed}:{port}") } else { address.to_string() };
    let ports = if with_port && dice.one_in(3) { " --to-ports 41000-41999" } else { "" };
    let destination = |dice: &mut Dice| match dice.below(3) {
        0 if with_port => format!("-j REDIRECT --to-ports {port}"),
        1 => "-j REDIRECT".to_owned(),
        _ => format!("-j DNAT --to-destination {to}"),
    };
    let is_source = match chain {
        "PREROUTING" | "OUTPUT" => false,
        "INPUT" | "POSTROUTING" => true,
        _ => dice.one_in(2),
    };
    if !is_source {
        return destination(dice);
    }
    if dice.one_in(2) && chain != "INPUT" {
        format!("-j MASQUERADE{ports}")
    } else {
        format!("-j SNAT --to-source {address}")
    }
}
