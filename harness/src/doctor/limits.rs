//! Checks the limits on the size of a lab and on the number of flows that can be counted in it.

use std::thread;

use svclab_rules::cluster::Family;

use super::{Check, read, read_number, rules};
use crate::environment::Implementation;
use crate::kernel::CONNECTIONS;
use crate::lab::{Backend, with_lab};
use crate::probe::FLUSH_EVERY;
use crate::topology::{Netns, Role, Topology, UNDERLAY};

/// Number of namespaces of the largest supported lab: 1,000 pods, ten nodes, and the hosts around them.
const NAMESPACES: u64 = 1_100;
/// Number of open files of that lab: one per namespace, and the sockets of nodes, pods and probes.
const OPEN_FILES: u64 = 4_096;
/// The required receive buffer of a capture: it holds the incoming and outgoing packets of one batch, or those of one flow that loops until
/// its TTL expires, with the kernel's overhead. The kernel grants twice the requested number of bytes.
const RECEIVE_BUFFER: u64 = 128 * 1_024;
/// The number of rules for about 1,000 services with three endpoints each.
const MANY_RULES: usize = 10_000;
/// The buffer that iptables-nft requests to load that many rules. As root it can exceed the limit; otherwise it gets `wmem_default`.
const LARGE_BUFFER: u64 = 4 * 1_024 * 1_024;

/// Reads the limits; `can_build` says whether a lab can be built to try them in.
pub(super) fn examine(can_build: bool, rootless: bool) -> Vec<Check> {
    let cpus = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut checks = vec![
        Check::ok("CPUs", format!("{cpus}: as many labs run in parallel")),
        open_files(&read("/proc/self/limits").unwrap_or_default()),
        namespaces(read_number("/proc/sys/user/max_net_namespaces")),
        connections(read_number("/proc/sys/net/netfilter/nf_conntrack_max")),
    ];
    // Root may exceed the limit.
    if rootless {
        checks.push(receive_buffer(read_number("/proc/sys/net/core/rmem_max")));
    }
    if can_build {
        checks.push(rps_mask(&rps_mask_of_a_lab()));
    }
    if can_build && rootless && Implementation::installed() == Some(Implementation::Nft) {
        checks.push(large_rule_sets());
    }
    checks
}

/// Checks the limit in a process's `/proc/PID/limits`: [`crate::lab::become_privileged`] raised the soft limit.
fn open_files(limits: &str) -> Check {
    const NAME: &str = "open files";
    match soft_limit_of_open_files(limits) {
        Some(limit) if limit < OPEN_FILES => {
            let pods = limit / 4;
            let fix = format!("Raise the limit before svclab starts: `ulimit -Hn {OPEN_FILES}` as root.");
            Check::lacking(NAME, format!("{limit}, enough for about {pods} pods"), fix).optional()
        }
        Some(u64::MAX) | None => Check::ok(NAME, "not limited"),
        Some(limit) => Check::ok(NAME, limit.to_string()),
    }
}

/// Returns the first number of the line `Max open files  1024  524288  files`.
fn soft_limit_of_open_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

fn namespaces(most: Option<u64>) -> Check {
    const NAME: &str = "user.max_net_namespaces";
    match most {
        Some(most) if most < NAMESPACES => {
            let fix = format!("Allow more: `sudo sysctl -w {NAME}=15000`.");
            Check::lacking(NAME, format!("{most}; each pod and node needs one"), fix).optional()
        }
        most => Check::ok(NAME, shown(most)),
    }
}

fn connections(most: Option<u64>) -> Check {
    const NAME: &str = "nf_conntrack_max";
    match most {
        // Flushed entries are freed a moment later, so the table may briefly hold twice as many.
        Some(most) if most < 2 * FLUSH_EVERY => {
            let found = format!("{most}; {FLUSH_EVERY} flows are in flight when balance is measured");
            let fix = format!("Allow more: `sudo sysctl -w net.netfilter.{NAME}={CONNECTIONS}`.");
            Check::lacking(NAME, found, fix)
        }
        most => Check::ok(NAME, shown(most)),
    }
}

fn receive_buffer(most: Option<u64>) -> Check {
    const NAME: &str = "net.core.rmem_max";
    match most {
        Some(most) if most < RECEIVE_BUFFER => {
            let found = format!("{most} bytes: captures may lose packets when balance is measured or packets loop");
            Check::lacking(
                NAME,
                found,
                format!("Run svclab with sudo, or enlarge it: `sudo sysctl -w {NAME}=4194304`."),
            )
        }
        most => Check::ok(NAME, shown(most)),
    }
}

fn shown(number: Option<u64>) -> String {
    number.map_or_else(|| "not limited".to_owned(), |number| number.to_string())
}

/// Returns the CPUs over which packets of a new interface are distributed, read in a lab's own namespace; empty if the kernel cannot
/// distribute them.
fn rps_mask_of_a_lab() -> String {
    let mut topology = Topology::default();
    topology.add(Netns::new("alone".to_owned(), Role::Underlay));
    let inside = with_lab(&topology, &[], Backend::System, |lab| {
        lab.inside(UNDERLAY, || read("/proc/sys/net/core/rps_default_mask"))
    });
    inside.and_then(|read| read).ok().flatten().unwrap_or_default()
}

/// Checks that packets stay on one CPU: barrier frames rely on the order of one CPU's queue to detect that no packet is in flight.
fn rps_mask(mask: &str) -> Check {
    const NAME: &str = "net.core.rps_default_mask";
    if mask.chars().all(|digit| matches!(digit, '0' | ',')) {
        let found = if mask.is_empty() { "not there" } else { "0" };
        return Check::ok(NAME, format!("{found}: packets stay on one CPU"));
    }
    let fix = format!("Keep packets on the CPU that sent them: `sudo sysctl -w {NAME}=0`.");
    Check::lacking(NAME, format!("{mask}: packets are spread over CPUs"), fix)
}

/// Checks that large rule sets can be loaded: an unprivileged user's netlink messages are limited by `wmem_default`, and iptables-nft loads
/// all tables in one message.
fn large_rule_sets() -> Check {
    const NAME: &str = "large rule sets";
    let text = format!("*nat\n{}COMMIT\n", "-A POSTROUTING -s 192.0.2.1/32 -j ACCEPT\n".repeat(MANY_RULES));
    match rules::install(Backend::System, Family::Ipv4, rules::iptables_rules(Family::Ipv4, &text)) {
        Ok(()) => Check::ok(NAME, format!("{MANY_RULES} rules in one transaction")),
        Err(error) => {
            let buffer = shown(read_number("/proc/sys/net/core/wmem_default"));
            let said = rules::what_was_said(&error);
            let found = format!("{MANY_RULES} rules in one transaction, net.core.wmem_default={buffer}: {said}");
            let fix = format!(
                "Run svclab with sudo, choose `--backend legacy`, or allow larger messages: \
                 `sudo sysctl -w net.core.wmem_default={LARGE_BUFFER}`."
            );
            Check::lacking(NAME, found, fix).optional()
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::doctor::Status;

    #[rstest]
    #[case(
        "Limit                     Soft Limit           Hard Limit           Units\nMax open files            1024                 524288               files\n",
        Some(1024)
    )]
    #[case("Max open files            unlimited            unlimited            files", Some(u64::MAX))]
    #[case("", None)]
    fn the_soft_limit_is_read(#[case] limits: &str, #[case] expected: Option<u64>) {
        assert_eq!(soft_limit_of_open_files(limits), expected);
    }

    #[rstest]
    #[case::few_files(
        open_files("Max open files 1024 1024 files"),
        Status::Degraded,
        "1024, enough for about 256 pods"
    )]
    #[case::many_files(open_files("Max open files 20000 20000 files"), Status::Ok, "20000")]
    #[case::few_namespaces(namespaces(Some(100)), Status::Degraded, "100; each pod and node needs one")]
    #[case::small_table(
        connections(Some(8_192)),
        Status::Lacking,
        "8192; 16384 flows are in flight when balance is measured"
    )]
    #[case::default_table(connections(Some(CONNECTIONS)), Status::Ok, "262144")]
    #[case::no_table(connections(None), Status::Ok, "not limited")]
    #[case::small_buffer(
        receive_buffer(Some(4_096)),
        Status::Lacking,
        "4096 bytes: captures may lose packets when balance is measured or packets loop"
    )]
    #[case::default_buffer(receive_buffer(Some(212_992)), Status::Ok, "212992")]
    #[case::not_spread(rps_mask("00000000,00000000"), Status::Ok, "0: packets stay on one CPU")]
    #[case::cannot_spread(rps_mask(""), Status::Ok, "not there: packets stay on one CPU")]
    #[case::spread(rps_mask("0000000f"), Status::Lacking, "0000000f: packets are spread over CPUs")]
    fn numbers_are_judged(#[case] check: Check, #[case] status: Status, #[case] found: &str) {
        assert_eq!((check.status, check.found.as_str()), (status, found));
        assert_eq!(check.fix.is_some(), status != Status::Ok);
    }
}
