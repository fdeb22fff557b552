//! Probabilities that people shortened, as those that kube-proxy writes: a lab has the rules that a note stands for.

use crate::chains::iptables::{NAMING, balances};
use crate::chains::{FIVE_DIGITS, Kind, TEN_DIGITS, even};
use crate::iptables::{Chain, Match, Negatable, RuleSet, Statistic, TableName};

/// Replaces probabilities with fewer decimals than any release writes by those that they stand for: `0.33` with two endpoints after it is a
/// third. Returns how many these are.
pub fn complete_typed_probabilities(rules: &mut RuleSet) -> usize {
    let Some(nat) = rules.tables.iter_mut().find(|table| table.name == TableName::Nat) else { return 0 };
    let is_group = |chain: &&mut Chain| matches!(NAMING.of(&chain.name), Some((Kind::Group(_), _)));
    nat.chains.iter_mut().filter(is_group).map(complete).sum()
}

fn complete(chain: &mut Chain) -> usize {
    let mut to_come = chain.rules.iter().filter(|rule| balances(rule)).count();
    let mut completed = 0;
    for rule in chain.rules.iter_mut().filter(|rule| balances(rule)) {
        for one in rule.matches.iter_mut() {
            let Match::Statistic(Statistic::Random(Negatable { negated: false, value })) = one else { continue };
            if let Some(even) = even(to_come, TEN_DIGITS).filter(|_| value.is_typed_as(to_come, FIVE_DIGITS)) {
                *value = even;
                completed += 1;
            }
        }
        to_come -= 1;
    }
    completed
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::cluster::Family;
    use crate::iptables;

    #[rstest]
    #[case::thirds(&["0.333", "0.500"], 2)]
    #[case::cut(&["0.33", "0.5"], 2)]
    #[case::uneven(&["0.4", "0.5"], 1)]
    #[case::of_old_releases(&["0.33333", "0.50000"], 0)]
    #[case::printed(&["0.33332999982", "0.50000000000"], 0)]
    fn typed_probabilities_are_completed(#[case] written: &[&str], #[case] expected: usize) {
        let share = |text: &&str| {
            format!(
                "-A KUBE-SVC-AAAAAAAAAAAAAAAA -m statistic --mode random --probability {text} -j KUBE-SEP-{}\n",
                "B".repeat(16)
            )
        };
        let last = format!("-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-{}\n", "C".repeat(16));
        let text: String = written.iter().map(share).chain([last]).collect();
        let text = format!(
            "*nat\n:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n:KUBE-SEP-{} - [0:0]\n:KUBE-SEP-{} - [0:0]\n{text}COMMIT\n",
            "B".repeat(16),
            "C".repeat(16)
        );
        let mut rules = iptables::parse(&text, Family::Ipv4).unwrap().rules;
        assert_eq!(complete_typed_probabilities(&mut rules), expected);
        let has_third = iptables::print(&rules).contains("--probability 0.33333333");
        assert_eq!(has_third, expected == 2);
    }
}
