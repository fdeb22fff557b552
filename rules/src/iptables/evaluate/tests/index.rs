//! The index finds the same rules as a linear search of the chain.

use std::fmt::Write;

use proptest::prelude::*;

use super::*;

/// A rule of a chain in which most rules match an address or a port. `None` omits an option.
#[derive(Debug, Clone)]
struct Draft {
    destination: Option<(u8, bool)>,
    wide: bool,
    port: Option<(u16, bool, bool)>,
    chance: bool,
    /// A `recent` match with or without an effect, and whether it comes before the port match.
    recent: Option<(&'static str, bool)>,
    limit: bool,
    target: u8,
}

fn draft() -> impl Strategy<Value = Draft> {
    let destination = prop::option::weighted(0.8, (0..4_u8, prop::bool::weighted(0.1)));
    let port = prop::option::weighted(0.7, (0..3_u16, any::<bool>(), prop::bool::weighted(0.1)));
    let action = prop::sample::select(vec!["set", "update", "remove", "rcheck"]);
    let recent = prop::option::weighted(0.2, (action, any::<bool>()));
    let flags = (prop::bool::weighted(0.1), prop::bool::weighted(0.2), prop::bool::weighted(0.1));
    (destination, port, flags, recent, 0..6_u8).prop_map(
        |(destination, port, (wide, chance, limit), recent, target)| Draft {
            destination,
            wide,
            port,
            chance,
            recent,
            limit,
            target,
        },
    )
}

fn text(chains: &[Vec<Draft>]) -> String {
    let mut text = String::from("*filter\n:FORWARD ACCEPT [0:0]\n");
    for chain in 1..chains.len() {
        writeln!(text, ":C{chain} - [0:0]").unwrap();
    }
    for (number, chain) in chains.iter().enumerate() {
        for (position, rule) in chain.iter().enumerate() {
            let name = if number == 0 { "FORWARD".to_owned() } else { format!("C{number}") };
            write!(text, "-A {name}").unwrap();
            if let Some((host, negated)) = rule.destination {
                let (negation, length) = (if negated { " !" } else { "" }, if rule.wide { 31 } else { 32 });
                write!(text, "{negation} -d 10.0.0.{host}/{length}").unwrap();
            }
            let protocol = |tcp: bool| if tcp { "tcp" } else { "udp" };
            if let Some((_, tcp, _)) = rule.port {
                write!(text, " -p {}", protocol(tcp)).unwrap();
            }
            if rule.limit {
                text.push_str(" -m limit --limit 5/min");
            }
            let recent = |first: bool| rule.recent.filter(|(_, is_first)| *is_first == first).map(|(action, _)| action);
            if let Some(action) = recent(true) {
                write!(text, " -m recent --{action} --name L").unwrap();
            }
            if let Some((port, tcp, negated)) = rule.port {
                let negation = if negated { " !" } else { "" };
                write!(text, " -m {}{negation} --dport {port}", protocol(tcp)).unwrap();
            }
            if let Some(action) = recent(false) {
                write!(text, " -m recent --{action} --name L").unwrap();
            }
            if rule.chance {
                text.push_str(" -m statistic --mode random --probability 0.3");
            }
            let next = number + 1;
            let target = match rule.target {
                0 => "ACCEPT".to_owned(),
                1 => "RETURN".to_owned(),
                2 if next < chains.len() => format!("C{next}"),
                // Records which rules matched.
                _ => format!("MARK --set-xmark 0x{:x}/0x0", 1 << (position % 32)),
            };
            writeln!(text, " -j {target}").unwrap();
        }
    }
    text + "COMMIT\n"
}

proptest! {
    #[test]
    fn an_index_changes_nothing(
        chains in prop::collection::vec(prop::collection::vec(draft(), 0..30), 1..4),
        host in 0..4_u8,
        port in 0..3_u16,
        tcp in any::<bool>(),
    ) {
        let rules = parse(&text(&chains), Family::Ipv4).unwrap().rules;
        let protocol = if tcp { Protocol::Tcp } else { Protocol::Udp };
        let packet = Packet::new(address("10.1.0.1"), IpAddr::from([10, 0, 0, host]), Transport::opening(protocol, 1, port));
        let walk = |program: &Program| {
            let (environment, tracking) = (&Environment::default(), Tracking::first(&packet));
            program.walk_with(Arrival { tracking, ..Arrival::first(environment, Hook::Forward, &packet) }, Path::default())
        };
        prop_assert_eq!(walk(&Program::compile(&rules).unwrap()), walk(&Program::without_index(&rules).unwrap()));
    }
}

#[test]
fn long_chains_of_services_have_one() {
    let rules: String = (0..100).map(|host| format!("-A FORWARD -d 10.0.0.{host}/32 -j DROP\n")).collect();
    let program = v4(&format!("*filter\n{rules}-A FORWARD -j ACCEPT\nCOMMIT\n"));
    assert_eq!(program.code.indexes.len(), 1);
    for (host, outcome) in [(99, "drop"), (100, "accept")] {
        let packet = tcp("10.1.0.1", &format!("10.0.0.{host}"), 80);
        assert_eq!(word(&only_branch(&program, Hook::Forward, &packet).outcome), outcome);
    }
}

#[test]
fn a_rule_whose_effect_comes_before_its_port_is_evaluated_for_all_packets() {
    let ports: String = (1..9).map(|port| format!("-A FORWARD -p tcp -m tcp --dport {port} -j DROP\n")).collect();
    let noted = "-A FORWARD -p tcp -m recent --set --name L -m tcp --dport 80 -j DROP\n";
    let program = v4(&format!("*filter\n{ports}{noted}COMMIT\n"));
    assert_eq!(program.code.indexes.len(), 1);
    let branch = only_branch(&program, Hook::Forward, &tcp("10.1.0.1", "10.0.0.1", 443));
    assert_eq!((word(&branch.outcome), branch.effects.len()), ("accept", 1));
}
