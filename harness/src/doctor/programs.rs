//! The programs that a lab calls, with their versions.

use std::path::Path;

use svclab_rules::cluster::{Family, ProxyMode};

use super::Check;
use crate::lab::{Backend, INSTALL, has_ipv6, programs};
use crate::text::printable;

/// Which implementation an iptables program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Implementation {
    /// iptables-nft.
    Nft,
    /// iptables-legacy, and everything before there were two.
    Legacy,
}

impl Implementation {
    /// The name of the implementation.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nft => "iptables-nft",
            Self::Legacy => "iptables-legacy",
        }
    }
}

/// Looks for every program and its version.
pub(super) fn examine() -> Vec<Check> {
    let restore =
        |backend: Backend| Family::ALL.map(|family| backend.program(ProxyMode::Iptables, family)).map(of_program);
    let [ipv4, ipv6] = restore(Backend::System);
    let ipv6 = if has_ipv6() { ipv6 } else { ipv6.optional() };
    let mut checks = vec![ipv4, ipv6, of_program("conntrack"), of_program(programs::KEEPER)];
    checks.push(of_program("nft").optional());
    let other = match system() {
        Some(Implementation::Legacy) => Backend::Nft,
        _ => Backend::Legacy,
    };
    checks.extend(restore(other).map(Check::optional));
    checks
}

/// Which implementation the system's `iptables-restore` is; `None` where there is none.
pub(super) fn system() -> Option<Implementation> {
    let said = version(&programs::find(Backend::System.program(ProxyMode::Iptables, Family::Ipv4))?)?;
    Some(if said.contains("nf_tables") { Implementation::Nft } else { Implementation::Legacy })
}

fn of_program(program: &str) -> Check {
    let Some(file) = programs::find(program) else {
        return Check::lacking(program, "not installed", INSTALL);
    };
    match version(&file) {
        Some(said) => Check::ok(program, format!("{}, {}", version_number(&said), printable(&file))),
        None => Check::lacking(program, format!("{} does not run", printable(&file)), INSTALL),
    }
}

/// The first line of a program's version output.
fn version(file: &Path) -> Option<String> {
    programs::version(file)?.lines().next().map(str::to_owned)
}

/// The version and what follows it, without the program's name: `1.8.9 (nf_tables)`.
fn version_number(said: &str) -> &str {
    let begins = |word: &&str| word.trim_start_matches('v').starts_with(|first: char| first.is_ascii_digit());
    let word = said.split_whitespace().find(begins).unwrap_or(said);
    let start = said.find(word).unwrap_or_default();
    said[start..].trim_start_matches('v').trim_end()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("iptables-restore v1.8.9 (nf_tables)", "1.8.9 (nf_tables)")]
    #[case("ip6tables-restore v1.6.1", "1.6.1")]
    #[case("nftables v1.0.6 (Lester Gooch #5)", "1.0.6 (Lester Gooch #5)")]
    #[case("conntrack v1.4.7 (conntrack-tools)", "1.4.7 (conntrack-tools)")]
    #[case("no number at all", "no number at all")]
    fn the_version_stands_alone(#[case] said: &str, #[case] expected: &str) {
        assert_eq!(version_number(said), expected);
    }

    #[test]
    fn a_missing_program_is_lacking_with_a_fix() {
        let check = of_program("svclab-knows-no-such-program");
        assert_eq!(check, Check::lacking("svclab-knows-no-such-program", "not installed", INSTALL));
    }
}
