use std::collections::BTreeSet;

use super::*;
use crate::cluster::Family;
use crate::iptables::parse;

const RULES: &str = "*filter\n:FORWARD ACCEPT [0:0]\n\
    -A FORWARD -m conntrack --ctstate INVALID -j DROP\n\
    -A FORWARD -d 10.96.0.9/32 -p tcp -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable\n\
    COMMIT\n\
    *nat\n:PREROUTING ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n:SEP-A - [0:0]\n:SEP-B - [0:0]\n:SVC-X - [0:0]\n\
    -A PREROUTING -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j SVC-X\n\
    -A POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
    -A POSTROUTING -j MASQUERADE --random-fully\n\
    -A SEP-A -p tcp -j DNAT --to-destination 10.0.0.1:8080\n\
    -A SEP-B -p tcp -j DNAT --to-destination 10.0.0.2:8080\n\
    -A SVC-X ! -s 10.244.0.0/16 -j MARK --set-xmark 0x4000/0x4000\n\
    -A SVC-X -m statistic --mode random --probability 0.50000000000 -j SEP-A\n\
    -A SVC-X -j SEP-B\n\
    COMMIT\n";

fn rules() -> Rules {
    parse(RULES, Family::Ipv4).unwrap().rules.into()
}

/// Returns the lines that a change removes and those that it adds.
fn difference(change: &Change) -> (Vec<String>, Vec<String>) {
    let lines = |rules: &Rules| rules.print().lines().map(str::to_owned).collect::<Vec<_>>();
    let (before, after) = (lines(&rules()), lines(&change.apply(&rules())));
    let without = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|line| !those.contains(line)).cloned().collect()
    };
    (without(&before, &after), without(&after, &before))
}

#[test]
fn every_kind_of_mistake_is_made() {
    let made: BTreeSet<Operator> = changes(&rules()).iter().map(|change| change.operator).collect();
    let expected = "dropped rule, swapped rules, wrong probability, lost probability, wrong mask, wrong port, wrong address, \
                    lost negation, lost condition, lost mark, wrong mark, RETURN for jump, wrong chain, missing MASQUERADE, \
                    missing REJECT, missing DROP, stale endpoint, wrong target port";
    assert_eq!(made.iter().map(|operator| operator.as_str()).collect::<Vec<_>>().join(", "), expected);
}

#[test]
fn a_change_is_of_one_rule_and_says_so() {
    for change in changes(&rules()) {
        let (gone, new) = difference(&change);
        if change.operator == Operator::SwappedRules {
            assert_eq!((gone.len(), new.len()), (0, 0), "{change}");
            assert_ne!(change.apply(&rules()), rules(), "{change}");
        } else {
            assert_eq!(gone, std::slice::from_ref(&change.was), "{change}");
            assert_eq!(new, change.is.iter().cloned().collect::<Vec<_>>(), "{change}");
        }
    }
}

#[rstest::rstest]
#[case(Operator::WrongProbability, "-A SVC-X -m statistic --mode random --probability 0.25000000000 -j SEP-A")]
#[case(Operator::WrongChain, "-A SVC-X -m statistic --mode random --probability 0.50000000000 -j SEP-B")]
#[case(Operator::StaleEndpoint, "-A SEP-A -p tcp -j DNAT --to-destination 10.0.0.193:8080")]
#[case(
    Operator::WrongMask,
    "-A FORWARD -d 10.96.0.8/31 -p tcp -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable"
)]
#[case(Operator::LostNegation, "-A POSTROUTING -m mark --mark 0x4000/0x4000 -j RETURN")]
fn the_first_of_its_kind(#[case] operator: Operator, #[case] expected: &str) {
    let change = changes(&rules()).into_iter().find(|change| change.operator == operator);
    assert_eq!(change.and_then(|change| change.is).as_deref(), Some(expected));
}

#[test]
fn a_sample_is_the_same_each_time_and_in_order() {
    let all: Vec<usize> = (0..100).collect();
    let some = sample(all.clone(), 10, 7);
    assert_eq!((some.len(), some.is_sorted()), (10, true));
    assert_eq!(sample(all.clone(), 10, 7), some);
    assert_ne!(sample(all.clone(), 10, 8), some);
    assert_eq!(sample(all.clone(), 200, 7), all);
}

const TABLES: &str = "table ip kube-proxy {\n\
    set cluster-ips {\n type ipv4_addr\n elements = { 10.96.0.1 }\n }\n\
    map service-ips {\n type ipv4_addr . inet_proto . inet_service : verdict\n\
    elements = { 10.96.0.1 . tcp . 80 : goto service-A }\n }\n\
    chain nat-prerouting {\n type nat hook prerouting priority dstnat; policy accept;\n\
    ip daddr . meta l4proto . th dport vmap @service-ips\n }\n\
    chain nat-postrouting {\n type nat hook postrouting priority srcnat; policy accept;\n\
    meta mark & 0x00004000 == 0x00000000 return\n\
    meta mark set meta mark ^ 0x00004000\n\
    masquerade fully-random\n }\n\
    chain filter-input {\n type filter hook input priority -110; policy accept;\n\
    ip daddr @cluster-ips reject\n\
    ct state new drop\n }\n\
    chain endpoint-A {\n meta l4proto tcp dnat to 10.0.0.1:8080\n }\n\
    chain endpoint-B {\n meta l4proto tcp dnat to 10.0.0.2:8080\n }\n\
    chain endpoint-C {\n meta l4proto tcp dnat to 10.0.0.3:8080\n }\n\
    chain service-B {\n return\n }\n\
    chain service-A {\n ip daddr 10.96.0.1 tcp dport 80 ip saddr != 10.244.0.0/16 meta mark set meta mark | 0x00004000\n\
    numgen random mod 3 vmap { 0 : goto endpoint-A, 1 : goto endpoint-B, 2 : goto endpoint-C }\n }\n\
    }\n";

fn tables() -> Rules {
    crate::nftables::parse(TABLES).unwrap().rules.into()
}

#[test]
fn every_kind_of_mistake_is_made_in_nftables() {
    let made: BTreeSet<Operator> = changes(&tables()).iter().map(|change| change.operator).collect();
    let expected = "dropped rule, dropped element, swapped rules, wrong probability, lost probability, wrong mask, wrong port, \
                    wrong address, lost negation, lost condition, lost mark, wrong mark, RETURN for jump, wrong chain, \
                    missing MASQUERADE, missing REJECT, missing DROP, stale endpoint, wrong target port";
    assert_eq!(made.iter().map(|operator| operator.as_str()).collect::<Vec<_>>().join(", "), expected);
}

#[rstest::rstest]
#[case(
    Operator::WrongProbability,
    "numgen random mod 3 vmap { 0 : goto endpoint-A, 1 : goto endpoint-B, 2 : goto endpoint-A }"
)]
#[case(
    Operator::LostProbability,
    "numgen random mod 3 vmap { 0 : goto endpoint-A, 1 : goto endpoint-A, 2 : goto endpoint-A }"
)]
#[case(Operator::WrongAddress, "10.96.0.0")]
#[case(Operator::WrongPort, "10.96.0.1 . tcp . 81 : goto service-A")]
#[case(Operator::StaleEndpoint, "meta l4proto tcp dnat to 10.0.0.193:8080")]
#[case(Operator::LostNegation, "meta mark & 0x00004000 != 0x00000000 return")]
fn the_first_of_its_kind_in_nftables(#[case] operator: Operator, #[case] expected: &str) {
    let change = changes(&tables()).into_iter().find(|change| change.operator == operator);
    assert_eq!(change.and_then(|change| change.is).as_deref(), Some(expected));
}

/// nft's own grammar accepts every sound mutant.
#[test]
fn mutants_of_nftables_are_read_back_as_they_are() {
    for change in changes(&tables()) {
        let mutant = change.apply(&tables());
        assert_ne!(mutant, tables(), "{change}");
        if mutant.is_sound(Family::Ipv4) {
            let read = crate::nftables::parse(&mutant.print()).unwrap().rules;
            assert_eq!(Rules::from(read), mutant, "{change}");
        }
    }
}
