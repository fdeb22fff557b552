//! Rules that take connections before the chain of all Services, which no share takes into account.

use svclab_rules::iptables::{Chain, Rule, TableName, Target};
use svclab_rules::ruleset::Rules;

use crate::text::counted;

/// The built-in chains that jump to KUBE-SERVICES.
const CALLERS: [&str; 2] = ["PREROUTING", "OUTPUT"];

/// The number of such rules in each chain, in words; `None` if there is none. Rules that jump to chains of other programs are not followed.
pub(super) fn note(rules: &Rules) -> Option<String> {
    let nat = rules.iptables()?.table(TableName::Nat)?;
    let of_chain = |name: &&str| {
        let count = nat.chain(name).map_or(0, before_services);
        (count > 0).then(|| format!("{} of {name}", counted(count, "rule")))
    };
    let found: Vec<String> = CALLERS.iter().filter_map(of_chain).collect();
    (!found.is_empty()).then(|| {
        format!(
            "before KUBE-SERVICES, {} may take connections: shares are those of the connections that reach it; `svclab \
             verify` follows all rules",
            found.join(" and ")
        )
    })
}

fn before_services(chain: &Chain) -> usize {
    let leads = |rule: &Rule| rule.next_chain().is_some_and(|next| **next == *"KUBE-SERVICES");
    let ends = |rule: &&Rule| {
        use Target::{Accept, Dnat, Drop, Redirect, Return};
        matches!(rule.target, Some(Accept | Drop | Return | Dnat(_) | Redirect { .. }))
    };
    match chain.rules.iter().position(leads) {
        Some(at) => chain.rules[..at].iter().filter(ends).count(),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use svclab_rules::cluster::{Family, ProxyMode};

    use super::*;

    #[rstest]
    #[case::accepts(
        "-A PREROUTING -d 10.96.0.10/32 -j ACCEPT\n-A PREROUTING -j KUBE-SERVICES\n",
        Some("1 rule of PREROUTING")
    )]
    #[case::behind("-A PREROUTING -j KUBE-SERVICES\n-A PREROUTING -d 10.96.0.10/32 -j ACCEPT\n", None)]
    #[case::marks("-A OUTPUT -j MARK --set-xmark 0x1/0x1\n-A OUTPUT -j KUBE-SERVICES\n", None)]
    #[case::both(
        "-A PREROUTING -p tcp -j REDIRECT --to-ports 80\n-A PREROUTING -j KUBE-SERVICES\n-A OUTPUT -p tcp -j RETURN\n-A OUTPUT -j KUBE-SERVICES\n",
        Some("1 rule of PREROUTING and 1 rule of OUTPUT")
    )]
    fn rules_before_the_jump_are_counted(#[case] lines: &str, #[case] expected: Option<&str>) {
        let text =
            format!("*nat\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n{lines}COMMIT\n");
        let rules = Rules::parse(ProxyMode::Iptables, Family::Ipv4, &text).expect("rules");
        let found = note(&rules);
        assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
        assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()));
    }
}
