//! What programs say themselves: kube-proxy in its log, iptables in its warnings, and a chain that kube-proxy never filled.

use svclab_rules::cluster::ProxyMode;
use svclab_rules::iptables::TableName;

use super::finding::{Finding, Place, subject_of_chain};
use super::severity::Severity;
use super::view::View;
use crate::evidence::{Complaint, Contents, Failure, Piece, other_mode};
use crate::text::shortened;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    failures(view).into_iter().chain(no_services(view)).chain(legacy(view)).chain(ipvs(view)).collect()
}

/// What another program's lock or a busy kernel causes passes.
const PASSING: [&str; 2] = ["xtables lock", "Resource temporarily unavailable"];

/// What kube-proxy's log says it could not write.
fn failures(view: &View<'_>) -> Vec<Finding> {
    let of_piece = |piece: &'_ Piece| match &piece.contents {
        Contents::Log { failures, .. } => {
            let tried = |all: &[&Failure]| {
                let of_failure = |rules: &&Piece| {
                    rules.file == piece.file && all.iter().any(|one| rules.failed_to_load == Some(one.line))
                };
                view.evidence.pieces.iter().find(of_failure).map(|rules| rules.first)
            };
            repeated(failures).iter().map(|all| failure(piece, all, tried(all))).collect()
        }
        _ => Vec::new(),
    };
    view.evidence.pieces.iter().flat_map(of_piece).collect()
}

/// Failures by what failed and why, whatever numbers of lines they name: kube-proxy tries again every 30 s.
fn repeated(failures: &[Failure]) -> Vec<Vec<&Failure>> {
    let mut all: Vec<Vec<&Failure>> = Vec::new();
    for one in failures {
        let is_alike = |known: &&mut Vec<&Failure>| {
            known[0].what == one.what && without_digits(&known[0].why).eq(without_digits(&one.why))
        };
        match all.iter_mut().find(is_alike) {
            Some(known) => known.push(one),
            None => all.push(vec![one]),
        }
    }
    all
}

fn without_digits(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|letter| !letter.is_ascii_digit())
}

/// The finding of equal failures; `tried` is the line from which on the log shows the rules that it could not write.
fn failure(piece: &Piece, all: &[&Failure], tried: Option<usize>) -> Finding {
    let failure = all[0];
    let place = Place { file: piece.file.clone(), line: failure.line };
    let reason = if failure.why.is_empty() { String::new() } else { format!(": {}", shortened(&failure.why)) };
    let again = match all {
        [_, .., last] => format!(", {} times, last at line {}", all.len(), last.line),
        _ => String::new(),
    };
    let what = shortened(&failure.what);
    let said = || format!("kube-proxy reports{again}: {what}");
    match failure.complaint {
        Complaint::Sync => {
            let shown =
                tried.map(|first| format!("; the rules from line {first} on are these: the node does not have them"));
            let message =
                format!("kube-proxy could not write its rules{again}: {what}{reason}{}", shown.unwrap_or_default());
            let passes = PASSING.iter().any(|words| failure.why.contains(words));
            let severity = if passes { Severity::Warning } else { Severity::Error };
            let effect = "until kube-proxy succeeds, the node has the rules of an earlier time, or none: changes of Services and endpoints have no effect there";
            let is_nft = [&failure.what, &failure.why].iter().any(|words| words.contains("nft"));
            let mode = if is_nft { ProxyMode::Nftables } else { ProxyMode::Iptables };
            Finding::new("sync-failed", place, message, effect).graded(severity).with_mode(mode)
        }
        Complaint::NoClusterCidr => {
            let effect = "connections from outside of the cluster to cluster IPs are not masqueraded: replies may bypass the node";
            Finding::new("no-masquerade", place, said(), effect).graded(Severity::Warning)
        }
        Complaint::NodeName => {
            let effect = "with another name than the Node object's, kube-proxy finds no local endpoints: policy Local drops all connections";
            Finding::new("no-local-endpoints", place, said(), effect).graded(Severity::Warning)
        }
        Complaint::PortInUse => {
            let effect =
                "releases that keep node ports open skip this one: connections go to the process that listens on it";
            Finding::new("node-port-in-use", place, said(), effect)
        }
        Complaint::Watch { is_of_proxy, .. } => {
            let is_over = |one: &&Failure| matches!(one.complaint, Complaint::Watch { is_over: true, .. });
            let (severity, effect) = match (all.iter().all(is_over), is_of_proxy) {
                (true, _) => {
                    (Severity::Info, "none if the rules are of a later time: rules were written after these lines")
                }
                (false, true) => (
                    Severity::Warning,
                    "the node may have the rules of an earlier time: changes of Services and endpoints have no effect there",
                ),
                (false, false) => (
                    Severity::Info,
                    "if it is kube-proxy's log, the node may have the rules of an earlier time; other programs log the same message",
                ),
            };
            let who = if is_of_proxy { "kube-proxy" } else { "the log" };
            Finding::new("watch-failed", place, format!("{who} says{again}: {what}{reason}"), effect).graded(severity)
        }
    }
}

/// The chain of all Services, whole and without a rule: not even the API server's Service is there.
fn no_services(view: &View<'_>) -> Vec<Finding> {
    let has_other_mode = view.nodes.iter().any(|node| node.rules.nftables().is_some());
    let is_empty = |tables: &super::view::Tables<'_>| {
        tables.shows(TableName::Nat, "KUBE-SERVICES")
            && tables.chain(TableName::Nat, "KUBE-SERVICES").is_some_and(|chain| chain.rules.is_empty())
    };
    let empty = view.tables().filter(|_| !has_other_mode).filter(is_empty);
    let finding = |tables: super::view::Tables<'_>| {
        let message = "KUBE-SERVICES of nat has no rule: kube-proxy has created its chains, but written no Service, not even default/kubernetes";
        let effect = "no cluster IP and no node port works on this node";
        let subject = subject_of_chain(TableName::Nat.as_str(), "KUBE-SERVICES");
        Finding::new("no-services", tables.start(), message, effect).about([subject])
    };
    empty.map(finding).collect()
}

/// Tables of iptables-legacy that iptables-nft warns of, unless the evidence has them.
fn legacy(view: &View<'_>) -> Option<Finding> {
    let first = view.evidence.legacy_warnings.first()?;
    let is_shown = view.nodes.iter().any(|node| node.backend == Some("iptables-legacy"));
    (!is_shown).then(|| {
        let message = "iptables-nft warns that the kernel has tables of iptables-legacy too, which are not shown";
        let effect = "unknown: the kernel runs both; stale rules of Services in the other tables take connections, or masquerade or drop them";
        Finding::new("legacy-tables", Place { file: first.file.clone(), line: first.first }, message, effect)
    })
}

/// IPVS mode, where tools and kube-proxy's log show it, or its configuration, unless rules do.
fn ipvs(view: &View<'_>) -> Option<Finding> {
    let line = view.evidence.ipvs.first().map(|line| Place { file: line.file.clone(), line: line.first });
    let configured = || {
        let mut all = view.objects_of_kind("KubeProxyConfiguration");
        all.find_map(|(place, config)| (config["mode"] == "ipvs").then(|| place.clone()))
    };
    let place = line.or_else(configured)?;
    let is_of_ipvs = |placed: super::view::Placed<'_>| other_mode(placed.rule, &placed.chain.name).is_some();
    (!view.tables().any(|tables| tables.rules().any(is_of_ipvs))).then(|| {
        let message = "kube-proxy runs in IPVS mode, which svclab does not emulate";
        let effect =
            "unknown: IPVS decides on connections to Services there; rules of Services in iptables or nft are left over";
        Finding::new("other-mode", place, message, effect)
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::evidence::read;
    use crate::lint::tests::{BASE, ids};
    use crate::lint::{Severity, lint};

    #[rstest]
    #[case::older(
        "E1114 11:06:11.955523   12085 proxier.go:1282] Failed to execute iptables-restore: exit status 2 (Bad argument `KUBE-SVC-574IYFDEANSYIEBF'",
        "Failed to execute iptables-restore: exit status 2 (Bad argument `KUBE-SVC-574IYFDEANSYIEBF'",
        Severity::Error
    )]
    #[case::structured(
        "E0217 11:12:14.212635    9234 proxier.go:1432] \"Failed to execute iptables-restore\" err=\"exit status 4: Another app is currently holding the xtables lock\"",
        "Failed to execute iptables-restore: exit status 4: Another app is currently holding the xtables lock",
        Severity::Warning
    )]
    #[case::next_line(
        "E0217 11:12:14.212635    9234 proxier.go:1432] \"Failed to execute iptables-restore\" err=<\n\texit status 2: ip6tables-restore v1.8.7 (nf_tables): unknown option \"--xor-mark\"\n >",
        "Failed to execute iptables-restore: exit status 2: ip6tables-restore v1.8.7 (nf_tables): unknown option \"--xor-mark\"",
        Severity::Error
    )]
    #[case::nftables(
        "E0614 12:34:56.789012       1 proxier.go:1783] \"nftables sync failed\" err=\"exit status 1\" ipFamily=\"IPv4\"",
        "nftables sync failed: exit status 1",
        Severity::Error
    )]
    #[case::chain(
        "E0614 12:34:56.789012       1 proxier.go:848] \"Failed to ensure chain exists\" err=\"exit status 4\" table=\"nat\" chain=\"KUBE-SERVICES\"",
        "Failed to ensure chain exists: exit status 4",
        Severity::Error
    )]
    #[case::chain_of_older(
        "E0614 12:34:56.789012       1 proxier.go:848] Failed to ensure that nat chain KUBE-SERVICES exists: exit status 4",
        "Failed to ensure that nat chain KUBE-SERVICES exists: exit status 4",
        Severity::Error
    )]
    #[case::service_of_ipvs(
        "E0718 12:11:12.833299       1 proxier.go:1009] Failed to sync service: [fd00::1cb]:80/TCP, err: error bind address: fd00::1cb to interface: kube-ipvs0, err: permission denied",
        "Failed to sync service: [fd00::1cb]:80/TCP, err: error bind address: fd00::1cb to interface: kube-ipvs0, err: permission denied",
        Severity::Error
    )]
    fn failures_in_the_log_are_found(#[case] log: &str, #[case] expected: &str, #[case] severity: Severity) {
        let found =
            lint(&read(&format!("I0614 12:34:56.789012       1 proxier.go:805] \"Syncing iptables rules\"\n{log}\n")));
        let found: Vec<_> =
            found.iter().map(|one| (one.id, one.message.as_str(), one.place.line, one.severity)).collect();
        let message = format!("kube-proxy could not write its rules: {expected}");
        assert_eq!(found, [("sync-failed", message.as_str(), 2, severity)]);
    }

    #[rstest]
    #[case::no_cluster_cidr(
        "W1115 10:47:45.651453    1419 proxier.go:476] clusterCIDR not specified, unable to distinguish between internal and external traffic",
        "no-masquerade"
    )]
    #[case::no_local_detection(
        "I0614 12:34:56.789012       1 server_linux.go:97] \"Detect-local-mode set to ClusterCIDR, but no IPv4 cluster CIDR defined, defaulting to no-op detect-local\"",
        "no-masquerade"
    )]
    #[case::node_name(
        "W1115 10:47:45.651304    1419 server.go:582] Failed to retrieve node info: nodes \"cloud-test2\" not found",
        "no-local-endpoints"
    )]
    #[case::port(
        "E0112 09:36:32.221928    5712 proxier.go:1061] can't open \"nodePort for a/b:8008\" (:45102/tcp), skipping this nodePort: listen tcp :45102: bind: address already in use",
        "node-port-in-use"
    )]
    fn complaints_in_the_log_are_found(#[case] log: &str, #[case] expected: &str) {
        let found = lint(&read(&format!("{log}\n{log}\n")));
        let found: Vec<_> = found.iter().map(|one| (one.id, one.place.line, one.severity)).collect();
        assert_eq!(found, [(expected, 1, Severity::Warning)]);
    }

    /// kubernetes#38372: rules that were written before the API server could not be reached, or did not know kube-proxy, are of an earlier time.
    #[rstest]
    #[case::of_proxy("I0614 12:34:56.789012       1 proxier.go:805] \"Stale\"\n", "", &[("watch-failed", Severity::Warning)])]
    #[case::unknown("", "", &[("watch-failed", Severity::Info)])]
    #[case::over("", "I0614 12:34:59.789012       1 proxier.go:805] \"Syncing iptables rules\"\n", &[("watch-failed", Severity::Info)])]
    fn a_watch_that_failed_is_found(#[case] before: &str, #[case] after: &str, #[case] expected: &[(&str, Severity)]) {
        let log = "E0614 12:34:57.789012       1 reflector.go:150] k8s.io/client-go/informers/factory.go:150: Failed to watch *v1.EndpointSlice: failed to list *v1.EndpointSlice: Unauthorized\n";
        let found = lint(&read(&format!("{before}{log}{log}{after}")));
        assert_eq!(found.iter().map(|one| (one.id, one.severity)).collect::<Vec<_>>(), expected, "{found:?}");
    }

    /// kubelet has chains of its own.
    #[test]
    fn what_kubelet_could_not_write_is_no_failure_of_kube_proxy() {
        let log = "E0614 12:34:56.789012    1234 kubelet_network_linux.go:79] Failed to ensure that nat chain KUBE-MARK-DROP exists: exit status 4\n";
        assert_eq!(lint(&read(log)).iter().map(|one| one.id).collect::<Vec<_>>(), Vec::<&str>::new());
    }

    /// kubeadm#784: a whole table with kube-proxy's chains and no rule of a Service.
    #[test]
    fn a_node_on_which_no_service_was_written_is_found() {
        let is_of_service =
            |line: &&str| !["-A KUBE-SERVICES", "-SVC-", "-SEP-"].iter().any(|part| line.contains(part));
        let text: String = BASE.lines().filter(is_of_service).map(|line| format!("{line}\n")).collect();
        assert_eq!(ids(&text), ["no-services"]);
    }

    /// Without rows, a listed chain may be the one of table filter, which has no rule where all Services have endpoints.
    #[rstest]
    #[case::unknown("", "", &[])]
    #[case::after_another("", "Chain KUBE-FORWARD (1 references)\ntarget     prot opt source               destination\nDROP       all  --  anywhere             anywhere             ctstate INVALID\n\n", &[])]
    #[case::by_command("$ iptables -t nat -L KUBE-SERVICES\n", "", &["no-services"])]
    fn an_empty_chain_is_that_of_its_table(#[case] command: &str, #[case] before: &str, #[case] expected: &[&str]) {
        let chain = "Chain KUBE-SERVICES (2 references)\ntarget     prot opt source               destination\n";
        assert_eq!(ids(&format!("{command}{before}{chain}")), expected);
    }

    #[rstest]
    #[case::ipvsadm(
        "$ ipvsadm -ln\nIP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n",
        2
    )]
    #[case::log("I0605 08:47:52.766314       1 server_others.go:258] Using ipvs Proxier.\n", 1)]
    #[case::configuration(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\n",
        1
    )]
    fn ipvs_mode_is_found_without_its_rules(#[case] text: &str, #[case] line: usize) {
        let found = lint(&read(text));
        assert_eq!(found.iter().map(|one| (one.id, one.place.line)).collect::<Vec<_>>(), [("other-mode", line)]);
    }

    #[test]
    fn a_warning_of_tables_of_the_other_backend_is_found() {
        let warning = "# Warning: iptables-legacy tables present, use iptables-legacy-save to see them\n";
        let evidence = read(&format!("{warning}{BASE}"));
        assert_eq!(
            lint(&evidence).iter().map(|one| (one.id, one.place.line)).collect::<Vec<_>>(),
            [("legacy-tables", 1)]
        );
        let both = format!(
            "$ iptables-save\n{warning}{BASE}\n$ iptables-legacy-save\n*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j ACCEPT\nCOMMIT\n"
        );
        assert!(!ids(&both).contains(&"legacy-tables"), "{:?}", ids(&both));
        // On standard error, and where Markdown takes it for a heading, the `#` is missing.
        assert_eq!(ids(&format!("{}{BASE}", &warning[2..])), ["legacy-tables"]);
        let of_nft = "```\n# nft list ruleset | grep x\n# Warning: table ip nat is managed by iptables-nft, do not touch!\n```\n";
        assert_eq!(read(of_nft).unread, []);
    }
}
