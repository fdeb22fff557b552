//! Cascades compared with recordings, all of which are even, and with walks of single packets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use svclab_rules::cascade::{Assessment, Cascade, ConnectionOutcome, cascades, numgens, shares};
use svclab_rules::cluster::{Family, Protocol};
use svclab_rules::coverage::Coverage;
use svclab_rules::iptables::evaluate::Program;
use svclab_rules::ruleset::Rules;
use svclab_rules::walk::{Environment, Hook, HookVerdict, Packet, Share, Tracking, Transport};
use svclab_rules::{iptables, nftables};

/// Returns every recording of rules, of any release and mode.
fn recordings() -> Vec<PathBuf> {
    let entries = |folder: &Path| {
        let mut entries: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        entries
    };
    let folders = |path: &PathBuf| path.is_dir();
    let clusters = entries(Path::new("tests/golden")).into_iter().filter(folders);
    let releases = clusters.flat_map(|cluster| entries(&cluster)).filter(folders);
    let files = releases.flat_map(|release| entries(&release));
    let is_recording = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap();
        ["iptables-save.txt", "ip6tables-save.txt", "nft-ruleset.txt", "nft-ruleset.json"].contains(&name)
    };
    files.filter(is_recording).collect()
}

fn read(path: &Path) -> Vec<Cascade> {
    let text = std::fs::read_to_string(path).unwrap();
    match path.file_name().and_then(|name| name.to_str()).unwrap() {
        "iptables-save.txt" => cascades(&iptables::parse(&text, Family::Ipv4).unwrap().rules),
        "ip6tables-save.txt" => cascades(&iptables::parse(&text, Family::Ipv6).unwrap().rules),
        _ => nftables::parse(&text).unwrap().rules.tables.iter().flat_map(numgens).collect(),
    }
}

#[test]
fn every_cascade_of_a_real_kube_proxy_is_even() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for path in recordings() {
        for cascade in read(&path) {
            seen += 1;
            if cascade.assessment() != Assessment::Even {
                let Cascade { chain, defects, unknown, .. } = cascade;
                wrong.push(format!("{}: {chain}: {defects:?} {unknown:?}", path.display()));
            }
        }
    }
    assert!(seen > 600, "only {seen} cascades were read");
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_rules_of_a_real_kube_proxy_have_a_structure_defect() {
    let mut wrong = Vec::new();
    for path in recordings() {
        let text = std::fs::read_to_string(&path).unwrap();
        let rules = match path.file_name().and_then(|name| name.to_str()).unwrap() {
            "iptables-save.txt" => Rules::Iptables(iptables::parse(&text, Family::Ipv4).unwrap()),
            "ip6tables-save.txt" => Rules::Iptables(iptables::parse(&text, Family::Ipv6).unwrap()),
            _ => Rules::Nftables(nftables::parse(&text).unwrap()),
        };
        let found = shares(&rules, &Coverage::all()).structure_defects;
        wrong.extend(found.iter().map(|defect| format!("{}: {defect}", path.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Matches of an edited rule, with any probability.
fn condition() -> impl Strategy<Value = String> {
    let asks = prop_oneof![
        4 => Just(String::new()),
        1 => Just("-s 10.0.0.0/8 ".to_owned()),
        1 => Just("! -s 10.1.0.0/16 ".to_owned()),
        1 => Just("-p tcp -m tcp --sport 1000:2000 ".to_owned()),
        1 => Just("-p udp ".to_owned()),
        1 => Just("-m mark --mark 0x1/0x1 ".to_owned()),
        1 => Just("-m mark --mark 0x4000/0x4000 ".to_owned()),
    ];
    let chance = prop_oneof![
        2 => Just(String::new()),
        2 => (1_u32..1000).prop_map(|part| format!("-m statistic --mode random --probability 0.{part:03} ")),
        1 => (2_u32..6).prop_map(|every| format!("-m statistic --mode nth --every {every} --packet 0 ")),
    ];
    (asks, chance).prop_map(|(asks, chance)| asks + &chance)
}

/// The target of an edited rule.
fn target() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "-j RETURN",
        "-j ACCEPT",
        "-j DROP",
        "-j HELP",
        "-g HELP",
        "-j KUBE-MARK-MASQ",
        "-j KUBE-SEP-1",
        "-g KUBE-SEP-0",
    ])
}

/// A service's chain with edits anywhere in it, and a chain that edits jump to.
fn edited() -> impl Strategy<Value = String> {
    let edit = || (condition(), target()).prop_map(|(condition, target)| format!("{condition}{target}"));
    let inner = (condition(), prop::sample::select(vec!["-j RETURN", "-j ACCEPT", "-j DROP", "-j KUBE-MARK-MASQ"]));
    let inner = prop::collection::vec(inner.prop_map(|(condition, target)| format!("{condition}{target}")), 0..4);
    let edits = prop::collection::vec((any::<prop::sample::Index>(), edit()), 0..5);
    (1_usize..6, edits, inner).prop_map(|(count, edits, inner)| {
        let mut rules: Vec<String> = (0..count)
            .map(|number| match count - number {
                1 => format!("-j KUBE-SEP-{number}"),
                left => {
                    let chance = 1.0 / left as f64;
                    format!("-m statistic --mode random --probability {chance:.10} -j KUBE-SEP-{number}")
                }
            })
            .collect();
        for (place, edit) in edits {
            let place = place.index(rules.len() + 1);
            rules.insert(place, edit);
        }
        document(count.max(2), &rules, &inner)
    })
}

fn document(endpoints: usize, rules: &[String], inner: &[String]) -> String {
    let mut text =
        String::from("*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SVC-X - [0:0]\n:HELP - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n");
    (0..endpoints).for_each(|number| text += &format!(":KUBE-SEP-{number} - [0:0]\n"));
    text += "-A PREROUTING -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-X\n";
    text += "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n";
    rules.iter().for_each(|rule| text += &format!("-A KUBE-SVC-X {rule}\n"));
    inner.iter().for_each(|rule| text += &format!("-A HELP {rule}\n"));
    for number in 0..endpoints {
        text += &format!("-A KUBE-SEP-{number} -s 10.9.0.{number}/32 -j KUBE-MARK-MASQ\n");
        text += &format!("-A KUBE-SEP-{number} -p tcp -m tcp -j DNAT --to-destination 10.9.0.{number}:8080\n");
    }
    text + "COMMIT\n"
}

/// Returns the shares of endpoints, and of connections without one, from the walk of one packet; `None` if random rules before the
/// endpoints create more branches than a walk follows.
fn walked(program: &Program, source: &str, port: u16, mark: u32) -> Option<BTreeMap<String, Share>> {
    let transport = Transport::opening(Protocol::Tcp, port, 80);
    let packet = Packet { mark, ..Packet::new(source.parse().unwrap(), "10.96.0.1".parse().unwrap(), transport) };
    let mut shares = BTreeMap::new();
    for branch in program.walk(&Environment::default(), Hook::Prerouting, &packet, Tracking::first(&packet)) {
        if let HookVerdict::Unknown(_) = branch.outcome {
            return None;
        }
        let is_translated = branch.outcome == HookVerdict::Accept && branch.packet.destination != packet.destination;
        let (address, (_, port)) = (branch.packet.destination, branch.packet.transport.ports().unwrap());
        let end = if is_translated { format!("{address}:{port}") } else { "none".to_owned() };
        let share = shares.entry(end).or_insert(Share::ZERO);
        *share = share.plus(branch.share);
    }
    Some(shares)
}

/// The same from the fates in a cascade.
fn reported<'a>(fates: impl Iterator<Item = (Option<&'a str>, Share)>) -> BTreeMap<String, Share> {
    let mut shares = BTreeMap::new();
    for (endpoint, share) in fates.filter(|(_, share)| *share != Share::ZERO) {
        let sum = shares.entry(endpoint.unwrap_or("none").to_owned()).or_insert(Share::ZERO);
        *sum = sum.plus(share);
    }
    shares
}

fn is_same(one: &BTreeMap<String, Share>, other: &BTreeMap<String, Share>) -> bool {
    let is_close = |one: Share, other: Share| match one.fraction().zip(other.fraction()) {
        Some((one, other)) => one == other,
        None => (one.to_f64() - other.to_f64()).abs() < 1e-15,
    };
    one.keys().eq(other.keys()) && one.values().zip(other.values()).all(|(one, other)| is_close(*one, *other))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// However a service's chain is edited, its shares equal those of walks of single packets, for every kind of packet; and if one kind is
    /// handled differently, or one endpoint gets more, the cascade is not even.
    #[test]
    fn edited_chains_share_as_single_packets_are_walked(text in edited()) {
        let rules = iptables::parse(&text, Family::Ipv4).unwrap().rules;
        let program = Program::compile(&rules).unwrap();
        let cascade = cascades(&rules).remove(0);
        let outside = walked(&program, "203.0.113.77", 40_000, 0);
        prop_assume!(outside.is_some());
        let outside = outside.unwrap();
        let left = [(None, cascade.left)];
        let own = reported(cascade.shares().into_iter().map(|(endpoint, share)| (Some(endpoint), share)).chain(left));
        prop_assert!(is_same(&own, &outside), "{text}\n{own:?}\n{outside:?}");
        let cases: Vec<BTreeMap<String, Share>> = cascade.cases.iter().map(|case| reported(case.fates.iter().map(|(fate, share)| {
            (if let ConnectionOutcome::Endpoint(endpoint) = fate { Some(endpoint.as_str()) } else { None }, *share)
        }))).collect();
        for source in ["203.0.113.77", "10.2.0.1", "10.1.2.3"] {
            for (port, mark) in [(40_000, 0), (1500, 0), (40_000, 1), (1500, 0x4000)] {
                let Some(other) = walked(&program, source, port, mark) else { continue };
                let is_known = is_same(&other, &own) || cases.iter().any(|case| is_same(case, &other));
                prop_assert!(is_known, "{text}\nfrom {source}:{port}, mark {mark}: {other:?}\n{own:?}\n{cases:?}");
                prop_assert!(is_same(&other, &own) || cascade.assessment() == Assessment::Defective, "{text}");
            }
        }
        if cascade.assessment() == Assessment::Even {
            prop_assert_eq!(cascade.left, Share::ZERO);
            prop_assert!(cascade.largest_deviation() < 1e-6, "{text}");
        }
    }
}
