use rstest::rstest;

use super::*;
use crate::cluster::Family;
use crate::iptables;

/// A service's chain with these rules, and the chains of endpoints A, B, C and D.
fn one(rules: &str) -> Cascade {
    let mut text = String::from("*nat\n:KUBE-SVC-FOO - [0:0]\n");
    for name in ["A", "B", "C", "D"] {
        text += &format!(":KUBE-SEP-{name} - [0:0]\n");
    }
    for line in rules.lines() {
        text += &format!("-A KUBE-SVC-FOO -m comment --comment \"default/foo\" {}\n", line.trim());
    }
    for (name, last) in [("A", 1), ("B", 2), ("C", 3)] {
        text += &format!("-A KUBE-SEP-{name} -p tcp -m tcp -j DNAT --to-destination 10.244.{last}.2:80\n");
    }
    text += "COMMIT\n";
    let parsed = iptables::parse(&text, Family::Ipv4).unwrap_or_else(|errors| panic!("{errors:?}"));
    let mut found = cascades(&parsed.rules);
    assert_eq!(found.len(), 1);
    found.remove(0)
}

const RIGHT: &str = "-m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-A
    -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-B
    -j KUBE-SEP-C";

#[test]
fn a_right_cascade_is_even_to_the_last_bit_of_its_thresholds() {
    let cascade = one(RIGHT);
    assert_eq!(cascade.service, "default/foo");
    assert_eq!(cascade.defects, []);
    assert_eq!(cascade.left, Share::ZERO);
    let endpoints: Vec<&str> = cascade.steps.iter().map(|step| step.endpoint.as_str()).collect();
    assert_eq!(endpoints, ["10.244.1.2:80", "10.244.2.2:80", "10.244.3.2:80"]);
    let thresholds: Vec<Option<u32>> =
        cascade.steps.iter().map(|step| step.probability.map(Probability::threshold)).collect();
    assert_eq!(thresholds, [Some(715_827_883), Some(1 << 30), None]);
    let fractions: Vec<Option<(u128, u128)>> = cascade.steps.iter().map(|step| step.share.fraction()).collect();
    // 715,827,883 of 2^31; then half of the 1,431,655,765 that are left, each.
    assert_eq!(
        fractions,
        [Some((715_827_883, 1 << 31)), Some((1_431_655_765, 1 << 32)), Some((1_431_655_765, 1 << 32))]
    );
    assert_eq!(cascade.steps[2].cumulative, Share::ONE);
    assert!(cascade.largest_deviation() < 1e-9);
    assert!(cascade.sentence().starts_with("0.33, 0.50, always is even"), "{}", cascade.sentence());
}

#[rstest]
#[case::forgotten(
    "-j KUBE-SEP-A\n-m statistic --mode random --probability 0.5 -j KUBE-SEP-B\n-j KUBE-SEP-C",
    &[
        "rule 1: probability 1.00000000000 where 0.33333333333 would be even: its endpoint gets 1 of all",
        "rule 2: nothing is left for 10.244.2.2:80: a rule before it takes everything",
        "rule 3: nothing is left for 10.244.3.2:80: a rule before it takes everything",
    ]
)]
#[case::wrong_order(
    "-m statistic --mode random --probability 0.5 -j KUBE-SEP-A
     -m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-B
     -j KUBE-SEP-C",
    &[
        "rule 1: probability 0.50000000000 where 0.33333333333 would be even: its endpoint gets 1/2 of all",
        "rule 2: probability 0.33333333349 where 0.50000000000 would be even: its endpoint gets 16.666667 % of all",
    ]
)]
#[case::conditional_last(
    "-m statistic --mode random --probability 0.5 -j KUBE-SEP-A\n-s 10.0.0.0/8 -j KUBE-SEP-B",
    &[
        "rule 2: asks for more than chance, so that 10.244.2.2:80 gets a share of some packets only: counted as nothing",
        "1/2 of new connections are left to no endpoint",
    ]
)]
#[case::twice(
    "-m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-A
     -m statistic --mode random --probability 0.5 -j KUBE-SEP-A
     -j KUBE-SEP-B",
    &["rule 2: 10.244.1.2:80 has rule 1 already, and gets a share for each"]
)]
#[case::to_nowhere(
    "-m statistic --mode random --probability 0.5 -j KUBE-SEP-A\n-j KUBE-SEP-D",
    &["rule 2: KUBE-SEP-D translates to no address"]
)]
#[case::last_by_chance(
    "-m statistic --mode random --probability 0.5 -j KUBE-SEP-A\n-m statistic --mode random --probability 0.5 -j KUBE-SEP-B",
    &[
        "rule 2: probability 0.50000000000 where 1.00000000000 would be even: its endpoint gets 1/4 of all",
        "1/4 of new connections are left to no endpoint",
    ]
)]
fn defects_have_a_place_and_an_effect(#[case] rules: &str, #[case] expected: &[&str]) {
    let said: Vec<String> = one(rules).defects.iter().map(ToString::to_string).collect();
    assert_eq!(said, expected);
}

#[test]
fn clients_with_an_endpoint_of_their_own_are_no_part_of_the_shares() {
    let affinity =
        "-m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-A --mask 255.255.255.255 --rsource -j KUBE-SEP-A";
    let cascade = one(&format!("{affinity}\n{RIGHT}"));
    assert!(cascade.has_affinity);
    assert_eq!(cascade.steps.len(), 3);
    assert_eq!(cascade.defects, []);
    assert_eq!(cascade.steps[0].rule, 2);
}

/// As many endpoints, with probabilities of so many digits.
fn many(count: u32, digits: usize) -> Cascade {
    let mut text = String::from("*nat\n:KUBE-SVC-FOO - [0:0]\n");
    for number in 0..count {
        text += &format!(":KUBE-SEP-{number} - [0:0]\n");
    }
    for (number, left) in (0..count).zip((1..=count).rev()) {
        let probability = match left {
            1 => String::new(),
            _ => format!("-m statistic --mode random --probability {:.digits$} ", 1.0 / f64::from(left)),
        };
        text += &format!("-A KUBE-SVC-FOO {probability}-j KUBE-SEP-{number}\n");
    }
    for number in 0..count {
        let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number);
        text += &format!("-A KUBE-SEP-{number} -p tcp -m tcp -j DNAT --to-destination {address}:80\n");
    }
    let parsed = iptables::parse(&(text + "COMMIT\n"), Family::Ipv4).unwrap_or_else(|errors| panic!("{errors:?}"));
    cascades(&parsed.rules).remove(0)
}

#[test]
fn five_digits_are_told_with_what_they_do() {
    let three = many(3, 5);
    assert!(matches!(three.defects.as_slice(), [Defect { rule: 1, kind: Kind::FiveDigits { .. } }]), "{three:?}");
    assert!(three.largest_deviation() < 2e-5);
    // From here on 1/n is written as 1/(n-1) is.
    let many = many(319, 5);
    assert!(many.defects.iter().all(|defect| matches!(defect.kind, Kind::FiveDigits { .. })), "{:?}", many.defects);
    assert!(many.largest_deviation() > 1e-3, "{}", many.largest_deviation());
}

#[test]
fn ten_thousand_endpoints_share_evenly() {
    let cascade = many(10_000, 10);
    assert_eq!(cascade.defects, []);
    assert_eq!((cascade.endpoints, cascade.left), (10_000, Share::ZERO));
    assert!(cascade.largest_deviation() < 1e-4, "{}", cascade.largest_deviation());
}
