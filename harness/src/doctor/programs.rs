//! Checks the programs that a lab runs, and their versions.

use svclab_rules::cluster::{Family, ProxyMode};

use super::Check;
use crate::environment::{Implementation, version, version_number};
use crate::lab::{Backend, INSTALL, has_ipv6, programs};
use crate::text::printable;

/// Finds every program and its version.
pub(super) fn examine() -> Vec<Check> {
    let restore =
        |backend: Backend| Family::ALL.map(|family| backend.program(ProxyMode::Iptables, family)).map(check_program);
    let [ipv4, ipv6] = restore(Backend::System);
    let ipv6 = if has_ipv6() { ipv6 } else { ipv6.optional() };
    let mut checks = vec![ipv4, ipv6, check_program("conntrack")];
    if !programs::end_with_this_process() {
        checks.push(check_program(programs::KEEPER));
    }
    checks.push(check_program("nft").optional());
    let other = match Implementation::installed() {
        Some(Implementation::Legacy) => Backend::Nft,
        _ => Backend::Legacy,
    };
    checks.extend(restore(other).map(Check::optional));
    checks
}

fn check_program(program: &str) -> Check {
    let Some(file) = programs::find(program) else {
        return Check::lacking(program, "not installed", INSTALL);
    };
    match version(&file) {
        Some(said) => Check::ok(program, format!("{}, {}", version_number(&said), printable(&file))),
        None => Check::lacking(program, format!("{} does not run", printable(&file)), INSTALL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_lacking_with_a_fix() {
        let check = check_program("svclab-knows-no-such-program");
        assert_eq!(check, Check::lacking("svclab-knows-no-such-program", "not installed", INSTALL));
    }
}
