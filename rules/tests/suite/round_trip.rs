//! Any printed rules, not only recorded ones, parse to the same rules.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use svclab_rules::cluster::{Family, Protocol, ProtocolNumber};
use svclab_rules::iptables::{
    self, AddressType, Chain, Counters, IpSet, Masked, Match, Multiport, Nat, Negatable, Network, Other, Physdev,
    Policy, PortRange, Ports, Probability, Recent, RecentAction, RejectWith, RouteType, Rule, RuleSet, Side, States,
    Statistic, Table, TableName, Target, TcpFlags,
};
use svclab_rules::nftables::{
    self, AddressRange, Addresses, Condition, ConnectionState, Interfaces, LookupKey, MarkChange, Name, Protocols,
    Ruleset, Side as HeaderSide, Statement, Verdict,
};
use svclab_rules::walk::RejectResponse;

fn negatable<T: std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Negatable<T>> {
    (any::<bool>(), value).prop_map(|(negated, value)| Negatable { negated, value })
}

fn address(family: Family) -> BoxedStrategy<IpAddr> {
    match family {
        Family::Ipv4 => any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).into()).boxed(),
        Family::Ipv6 => {
            let bits =
                prop_oneof![any::<u128>(), (0_u128..1 << 40), any::<u64>().prop_map(|high| u128::from(high) << 64)];
            bits.prop_map(|bits| Ipv6Addr::from_bits(bits).into()).boxed()
        }
    }
}

fn prefix(family: Family, lengths: std::ops::RangeInclusive<u8>) -> impl Strategy<Value = IpNet> {
    (address(family), lengths).prop_map(|(address, length)| IpNet::new(address, length).unwrap().trunc())
}

fn network(family: Family) -> impl Strategy<Value = Negatable<Network>> {
    let masked = (address(family), address(family))
        .prop_filter("a mask that is a prefix is one", |(_, mask)| ipnet::ip_mask_to_prefix(*mask).is_err())
        .prop_map(|pair| Network::Masked(Box::new(pair)));
    negatable(prop_oneof![prefix(family, 0..=family.bits()).prop_map(Network::range), masked])
}

fn protocol() -> impl Strategy<Value = Protocol> {
    prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp), Just(Protocol::Sctp)]
}

fn ports() -> impl Strategy<Value = PortRange> {
    (any::<u16>(), any::<u16>()).prop_map(|(a, b)| PortRange { first: a.min(b), last: a.max(b) })
}

fn masked() -> impl Strategy<Value = Masked> {
    (any::<u32>(), prop_oneof![Just(u32::MAX), any::<u32>()]).prop_map(|(value, mask)| Masked { value, mask })
}

fn interface() -> impl Strategy<Value = Box<str>> {
    "[a-z][a-z0-9.]{0,12}\\+?".prop_map(Box::from)
}

fn one_of<T: Copy + std::fmt::Debug + 'static>(named: &'static [(&'static str, T)]) -> impl Strategy<Value = T> {
    (0..named.len()).prop_map(|at| named[at].1)
}

fn states() -> impl Strategy<Value = States> {
    btree_set(0..States::NAMES.len(), 1..4)
        .prop_map(|which| which.into_iter().fold(States::default(), |all, at| all.and(States::NAMES[at].1)))
}

fn transport_match() -> impl Strategy<Value = Match> {
    let flags = (0_u8..64, 0_u8..64).prop_map(|(mask, set)| TcpFlags { mask, set });
    (protocol(), option::of(negatable(ports())), option::of(negatable(ports())), option::of(negatable(flags))).prop_map(
        |(protocol, source, destination, flags)| {
            let flags = flags.filter(|_| protocol == Protocol::Tcp);
            Match::Ports(Ports { protocol, source, destination, flags })
        },
    )
}

fn recent(family: Family) -> impl Strategy<Value = Match> {
    let action = prop_oneof![
        Just(RecentAction::Set),
        Just(RecentAction::Check),
        Just(RecentAction::Update),
        Just(RecentAction::Remove)
    ];
    let numbers = (option::of(any::<u32>()), option::of(any::<u32>()));
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (negatable(action), numbers, flags, "[A-Z][A-Z0-9_-]{0,20}", address(family)).prop_map(
        |(action, (seconds, hit_count), (reap, same_ttl, destination), name, mask)| {
            let name = name.into();
            Match::Recent(Box::new(Recent { action, seconds, reap, hit_count, same_ttl, name, mask, destination }))
        },
    )
}

fn physdev() -> impl Strategy<Value = Match> {
    let name = || option::of(negatable(interface()));
    let flag = || option::of(negatable(Just(())));
    (name(), flag(), name(), flag(), negatable(Just(()))).prop_map(
        |(input, is_input, output, is_output, is_bridged)| {
            Match::Physdev(Box::new(Physdev { input, is_input, output, is_output, is_bridged: Some(is_bridged) }))
        },
    )
}

fn statistic() -> impl Strategy<Value = Match> {
    let random = (0..=Probability::ONE).prop_map(|threshold| Probability::from_threshold(threshold).unwrap());
    let nth = (negatable(any::<u32>()), any::<u32>()).prop_map(|(every, packet)| Statistic::Nth { every, packet });
    prop_oneof![negatable(random).prop_map(Statistic::Random), nth].prop_map(Match::Statistic)
}

fn other(known: &'static [(&'static str, &'static str)]) -> impl Strategy<Value = Box<Other>> {
    (0..known.len()).prop_map(|at| Box::new(Other { name: known[at].0.into(), text: known[at].1.into() }))
}

fn condition(family: Family) -> BoxedStrategy<Match> {
    const OTHERS: [(&str, &str); 5] = [
        ("limit", "--limit 5/min --limit-burst 7"),
        ("owner", "! --uid-owner 0"),
        ("helper", ""),
        ("u32", "--u32 \"0x0>>0x16&0x3c=0x1\""),
        ("addrtype", "--src-type LOCAL,UNICAST --limit-iface-in"),
    ];
    let address_type = (option::of(negatable(one_of(&RouteType::NAMES))), negatable(one_of(&RouteType::NAMES)))
        .prop_map(|(source, destination)| AddressType { source, destination: Some(destination) });
    let side = prop_oneof![Just(Side::Source), Just(Side::Destination), Just(Side::Either)];
    let multiport = (side, negatable(vec(ports(), 1..15)))
        .prop_map(|(side, ports)| Match::Multiport(Box::new(Multiport { side, ports })));
    let set = negatable("[A-Za-z][A-Za-z0-9:_-]{0,20}")
        .prop_map(|name| Negatable {
            negated: name.negated,
            value: IpSet { name: name.value.into(), directions: "src,dst".into() },
        })
        .prop_map(|set| Match::Set(Box::new(set)));
    prop_oneof![
        "\\PC{0,40}".prop_map(|text| Match::Comment(text.into())),
        "[a-zA-Z0-9_-]{0,12}".prop_map(|text| Match::Comment(text.into())),
        "[a-z_]{1,20}".prop_map(|name| Match::Nfacct(name.into())),
        transport_match(),
        negatable(masked()).prop_map(Match::Mark),
        negatable(masked()).prop_map(Match::Connmark),
        (any::<bool>(), negatable(states())).prop_map(|(old_name, states)| Match::State { old_name, states }),
        address_type.prop_map(Match::AddressType),
        statistic(),
        recent(family),
        physdev(),
        multiport,
        set,
        other(&OTHERS).prop_map(Match::Other),
    ]
    .boxed()
}

fn nat(family: Family) -> impl Strategy<Value = Nat> {
    let one = address(family).prop_map(|address| (address, address));
    let addresses = prop_oneof![one, (address(family), address(family))];
    (option::of(addresses), option::of(ports()), any::<bool>(), any::<bool>(), any::<bool>())
        .prop_filter("something is translated", |(addresses, ports, ..)| addresses.is_some() || ports.is_some())
        .prop_map(|(addresses, ports, random, random_fully, persistent)| Nat {
            addresses,
            ports,
            random,
            random_fully,
            persistent,
        })
}

fn chain_name() -> impl Strategy<Value = String> {
    "[A-Z]{2,6}-[A-Z0-9-]{1,16}"
}

fn target(family: Family) -> BoxedStrategy<Target> {
    const OTHERS: [(&str, &str); 4] = [
        ("LOG", "--log-prefix \"[it's] \" --log-level 4"),
        ("CONNMARK", "--save-mark --nfmask 0xffff --ctmask 0xffff"),
        ("TCPMSS", "--clamp-mss-to-pmtu"),
        ("NFLOG", ""),
    ];
    let words: &'static [_] = match family {
        Family::Ipv4 => &RejectWith::IPV4,
        Family::Ipv6 => &RejectWith::IPV6,
    };
    let masquerade = (option::of(ports()), any::<bool>(), any::<bool>())
        .prop_map(|(ports, random, random_fully)| Target::Masquerade { ports, random, random_fully });
    let redirect = (option::of(ports()), any::<bool>()).prop_map(|(ports, random)| Target::Redirect { ports, random });
    prop_oneof![
        chain_name().prop_map(|name| Target::Jump(name.as_str().into())),
        chain_name().prop_map(|name| Target::Goto(name.as_str().into())),
        Just(Target::Accept),
        Just(Target::Drop),
        Just(Target::Return),
        Just(Target::Trace),
        any::<bool>().prop_map(|by_ct| Target::NoTrack { by_ct }),
        one_of(words).prop_map(Target::Reject),
        masked().prop_map(Target::Mark),
        masquerade,
        redirect,
        nat(family).prop_map(Target::Dnat),
        nat(family).prop_map(Target::Snat),
        other(&OTHERS).prop_map(Target::Other),
    ]
    .boxed()
}

fn counters() -> impl Strategy<Value = Counters> {
    (any::<u64>(), any::<u64>()).prop_map(|(packets, bytes)| Counters { packets, bytes })
}

fn rule(family: Family) -> impl Strategy<Value = Rule> {
    let addresses = (option::of(network(family)), option::of(network(family)));
    let interfaces = (option::of(negatable(interface())), option::of(negatable(interface())));
    let protocol = option::of(negatable(any::<u8>().prop_map(ProtocolNumber)));
    let rest = (vec(condition(family), 0..5), option::of(target(family)), option::of(counters()));
    (addresses, interfaces, protocol, option::of(negatable(Just(()))), rest).prop_map(
        |((source, destination), (in_interface, out_interface), protocol, fragment, (matches, target, counters))| {
            Rule {
                counters,
                source,
                destination,
                in_interface,
                out_interface,
                protocol,
                fragment,
                matches: matches.into(),
                target,
            }
        },
    )
}

fn rule_set() -> impl Strategy<Value = RuleSet> {
    let family = prop_oneof![Just(Family::Ipv4), Just(Family::Ipv6)];
    family.prop_flat_map(|family| {
        let policy = option::of(prop_oneof![Just(Policy::Accept), Just(Policy::Drop)]);
        let chain = (policy, counters(), vec(rule(family), 0..4));
        let chains = (btree_set(chain_name(), 3), vec(chain, 3)).prop_map(|(names, chains)| {
            let named = names.into_iter().zip(chains);
            let chain = |(name, (policy, counters, rules)): (String, _)| Chain {
                policy,
                counters,
                rules,
                ..Chain::user(name.as_str())
            };
            named.map(chain).collect::<Vec<Chain>>()
        });
        vec(chains, 1..4).prop_map(move |all| {
            let tables = TableName::ALL.into_iter().zip(all).map(|(name, chains)| table(name, chains));
            RuleSet { family, tables: tables.collect() }
        })
    })
}

/// A table of these chains. Only built-in chains have a policy.
fn table(name: TableName, chains: Vec<Chain>) -> Table {
    let mut hooks = name.builtin_chains().iter();
    let named = |chain: Chain| match chain.policy.and_then(|_| hooks.next()) {
        Some(hook) => Chain { name: (*hook).into(), ..chain },
        None => Chain { policy: None, ..chain },
    };
    Table { name, chains: chains.into_iter().map(named).collect() }
}

fn set_name() -> impl Strategy<Value = Name> {
    "[a-z]{1,8}-[A-Z0-9]{8}-[a-z0-9./_-]{1,20}".prop_map(Name::from)
}

fn side() -> impl Strategy<Value = HeaderSide> {
    prop_oneof![Just(HeaderSide::Source), Just(HeaderSide::Destination)]
}

fn key() -> impl Strategy<Value = LookupKey> {
    prop_oneof![side().prop_map(LookupKey::Address), Just(LookupKey::Protocol), Just(LookupKey::DestinationPort)]
}

fn connection_states() -> impl Strategy<Value = Condition> {
    let states = proptest::sample::subsequence(ConnectionState::ALL.to_vec(), 1..=ConnectionState::ALL.len());
    (any::<bool>(), states).prop_map(|(negated, states)| Condition::State(nftables::States { negated, states }))
}

fn nft_ports() -> impl Strategy<Value = Condition> {
    let range = (any::<u16>(), any::<u16>()).prop_map(|(a, b)| a.min(b)..=a.max(b));
    (option::of(protocol()), side(), any::<bool>(), vec(range, 1..4)).prop_map(|(protocol, side, negated, ports)| {
        Condition::Ports(nftables::Ports { protocol, side, negated, ports: ports.into() })
    })
}

fn nft_condition(family: Family) -> BoxedStrategy<Condition> {
    let range = (address(family), address(family)).prop_map(|(a, b)| AddressRange { first: a.min(b), last: a.max(b) });
    // A prefix with one address is printed as that address.
    let prefix = prefix(family, 0..=family.bits() - 1);
    let value = prop_oneof![
        address(family).prop_map(Addresses::One),
        prefix.prop_map(Addresses::Prefix),
        vec(range, 1..4).prop_map(Addresses::Ranges),
        set_name().prop_map(Addresses::Set),
    ];
    let name = || "[a-z][a-z0-9.]{0,12}\\*?".prop_map(Box::from);
    let address =
        (side(), any::<bool>(), value).prop_map(|(side, negated, value)| Condition::Address { side, negated, value });
    prop_oneof![
        connection_states(),
        nft_ports(),
        (any::<bool>(), vec(any::<u8>(), 1..4))
            .prop_map(|(negated, numbers)| Condition::Protocols(Protocols { negated, numbers: numbers.into() })),
        (any::<[bool; 3]>(), vec(name(), 1..4)).prop_map(|([output, by_name, negated], names)| Condition::Interfaces(
            Interfaces { output, by_name, negated, names }
        )),
        (any::<bool>(), any::<u32>(), any::<u32>())
            .prop_map(|(negated, mask, value)| Condition::Mark(nftables::Mark { negated, mask, value })),
        Just(Condition::Family(family)),
        Just(Condition::Translated),
        address,
        side().prop_map(Condition::Local),
        (vec(key(), 2..5), set_name()).prop_map(|(key, set)| Condition::InSet(key, set)),
    ]
    .boxed()
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        Just(Verdict::Accept),
        Just(Verdict::Drop),
        Just(Verdict::Return),
        set_name().prop_map(Verdict::Jump),
        set_name().prop_map(Verdict::Goto)
    ]
}

fn statement(family: Family) -> BoxedStrategy<Statement> {
    let socket = || (address(family), any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip, port));
    let change = prop_oneof![
        any::<u32>().prop_map(MarkChange::Set),
        any::<u32>().prop_map(MarkChange::Flip),
        (any::<u32>(), any::<u32>()).prop_map(|(kept, set)| MarkChange::Write { kept, set }),
    ];
    let rejection = match family {
        Family::Ipv4 => vec![RejectResponse::PortUnreachable, RejectResponse::TcpReset, RejectResponse::NetProhibited],
        Family::Ipv6 => {
            vec![RejectResponse::PortUnreachable, RejectResponse::HostUnreachable, RejectResponse::PolicyFail]
        }
    };
    prop_oneof![
        verdict().prop_map(Statement::Verdict),
        proptest::sample::select(rejection).prop_map(Statement::Reject),
        (vec(key(), 1..4), set_name()).prop_map(|(key, map)| Statement::Lookup(key, map)),
        vec(verdict(), 1..5).prop_map(|verdicts| Statement::Balance(verdicts.into())),
        vec(socket(), 1..5).prop_map(|addresses| Statement::BalanceDnat(addresses.into())),
        socket().prop_map(Statement::Dnat),
        any::<bool>().prop_map(|random| Statement::Masquerade { random }),
        address(family).prop_map(Statement::DnatAddress),
        (address(family), option::of(any::<u16>())).prop_map(|(address, port)| Statement::Snat(address, port)),
        change.prop_map(Statement::Mark),
        (side(), set_name()).prop_map(|(side, set)| Statement::Remember(side, set)),
    ]
    .boxed()
}

fn ruleset() -> impl Strategy<Value = Ruleset> {
    let family = prop_oneof![Just(Family::Ipv4), Just(Family::Ipv6)];
    family.prop_flat_map(|family| {
        let comment = option::of("[^\"\\pC]{0,40}".prop_map(std::sync::Arc::from));
        let rule = (vec(nft_condition(family), 0..4), vec(statement(family), 1..4), comment).prop_map(
            |(mut conditions, statements, comment)| {
                // nft only supports TCP resets: if a rule does not match TCP, it adds the condition.
                if statements.contains(&Statement::Reject(RejectResponse::TcpReset)) {
                    conditions.push(Condition::protocol(Protocol::Tcp));
                }
                nftables::Rule { conditions, statements, comment }
            },
        );
        vec(rule, 0..6).prop_map(move |rules| {
            let chain = nftables::Chain { rules, ..nftables::Chain::regular(Name::from("services")) };
            let name = Name::from("kube-proxy");
            let table = nftables::Table { family, name, comment: None, sets: Vec::new(), chains: vec![chain] };
            Ruleset { tables: vec![table] }
        })
    })
}

proptest! {
    #[test]
    fn rules_of_iptables_are_read_as_they_were_printed(rules in rule_set()) {
        let text = iptables::print(&rules);
        let parsed = iptables::parse(&text, rules.family).map_err(|errors| TestCaseError::fail(format!("{errors:?}\n{text}")))?;
        prop_assert_eq!(parsed.rules, rules, "{}", text);
    }

    #[test]
    fn rules_of_nftables_are_read_as_they_were_printed(rules in ruleset()) {
        let text = nftables::print(&rules);
        let parsed = nftables::parse(&text).map_err(|errors| TestCaseError::fail(format!("{errors:?}\n{text}")))?;
        prop_assert_eq!(parsed.rules, rules, "{}", text);
    }
}
