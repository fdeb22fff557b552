//! Rules around those of Services: what precedes them, and the marks and masquerading that they depend on.

use svclab_rules::iptables::{ChainKind, OLDER, Rule, TableName, Target};

use super::finding::{Finding, subject_of_chain};
use super::severity::Severity;
use super::view::{Placed, Tables, View};
use crate::evidence::{self, Unread};

/// The bits of the mark that kube-proxy and kubelet use.
const KUBE_BITS: u32 = 0xc000;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let of_each = view.tables().flat_map(|tables| {
        [host_ports(tables), firewall(tables), marks(tables), masquerade(tables), layouts(tables), other_mode(tables)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
    });
    of_each.chain(skew(view)).chain(release(view)).collect()
}

/// hostPort rules before those of Services.
fn host_ports(tables: Tables<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for name in ["PREROUTING", "OUTPUT"] {
        let Some(chain) = tables.chain(TableName::Nat, name) else { continue };
        let to = |next: &str| chain.rules.iter().position(|rule| rule.next_chain().is_some_and(|own| **own == *next));
        if let (Some(host), Some(services)) = (to("CNI-HOSTPORT-DNAT"), to("KUBE-SERVICES"))
            && host < services
        {
            let message = format!("{name} of nat jumps to CNI-HOSTPORT-DNAT before KUBE-SERVICES");
            let effect = "a pod's hostPort takes connections to Services, also to load-balancer addresses, that use the same port";
            let place = tables.place(tables.line(TableName::Nat, name, host));
            let subject = subject_of_chain(TableName::Nat.as_str(), name);
            found.push(Finding::new("host-port-first", place, message, effect).about([subject]));
        }
    }
    found
}

/// A rule that drops everything, and rules of KUBE-FIREWALL that lost their mark.
fn firewall(tables: Tables<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for placed in
        tables.rules().filter(|placed| &*placed.chain.name == "KUBE-FIREWALL" || &*placed.chain.name == "KUBE-FORWARD")
    {
        if placed.rule.is_unconditional() && placed.rule.target == Some(Target::Drop) {
            let message = format!("{} drops every packet: its condition on the mark is lost", placed.chain.name);
            let effect = "the node loses all network connectivity: an iptables older than kube-proxy's saved and restored the rules without `-m mark`";
            let subject = subject_of_chain(placed.table.as_str(), &placed.chain.name);
            found.push(Finding::new("firewall-drops-all", tables.place(placed.line), message, effect).about([subject]));
        }
    }
    found
}

/// Other programs that set the bits of kube-proxy's marks.
fn marks(tables: Tables<'_>) -> Vec<Finding> {
    let is_kube = |name: &str| name.starts_with("KUBE-");
    let sets = |rule: &Rule| match rule.target {
        Some(Target::Mark(mark)) => Some(mark.mask | mark.value),
        _ => None,
    };
    let own = |placed: &Placed<'_>| {
        !is_kube(&placed.chain.name) && sets(placed.rule).is_some_and(|bits| bits & KUBE_BITS != 0 && bits != u32::MAX)
    };
    let first = tables.rules().find(own);
    first
        .map(|placed| {
            let message = format!(
                "{} sets bits of the mark 0x4000 or 0x8000, which kube-proxy and kubelet use",
                placed.chain.name
            );
            let effect = "packets with this mark are masqueraded, or dropped, whatever their destination";
            Finding::new("mark-bits", tables.place(placed.line), message, effect)
        })
        .into_iter()
        .collect()
}

fn masquerade(tables: Tables<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let rules: Vec<Placed<'_>> = tables.rules().filter(|placed| placed.table == TableName::Nat).collect();
    let fully = rules.iter().find(|placed| {
        &*placed.chain.name == "KUBE-POSTROUTING"
            && matches!(placed.rule.target, Some(Target::Masquerade { random_fully: true, .. }))
    });
    let clears = rules
        .iter()
        .any(|placed| &*placed.chain.name == "KUBE-POSTROUTING" && matches!(placed.rule.target, Some(Target::Mark(_))));
    let tunnels = ["flannel", "FLANNEL", "vxlan", "cali-", "CILIUM"];
    let has_tunnel = tables.parsed.rules.tables.iter().flat_map(|table| &table.chains).any(|chain| {
        tunnels.iter().any(|name| chain.name.contains(name))
            || chain.rules.iter().any(|rule| rule.comment().is_some_and(|comment| comment.contains("flanneld")))
    });
    if let Some(placed) = fully.filter(|_| !clears && has_tunnel && tables.shows(TableName::Nat, "KUBE-POSTROUTING")) {
        let message = "KUBE-POSTROUTING masquerades with --random-fully and leaves the mark on the packet";
        let effect = "over VXLAN the outer packet is masqueraded again with wrong checksums: connections to other nodes take 1 to 63 seconds";
        let subject = subject_of_chain(placed.table.as_str(), &placed.chain.name);
        found.push(Finding::new("double-masquerade", tables.place(placed.line), message, effect).about([subject]));
    }
    // A CNI that masquerades what is marked already.
    let other = rules.iter().find(|placed| {
        let is_builtin = placed.table.builtin_chains().contains(&&*placed.chain.name)
            || placed.chain.name.starts_with("FLANNEL")
            || placed.chain.name.starts_with("CNI-");
        let is_masquerade = matches!(placed.rule.target, Some(Target::Masquerade { .. } | Target::Snat(_)));
        let is_scoped = placed.rule.destination.is_some()
            || placed.rule.out_interface.is_some()
            || tables.hides_interfaces(placed.table, &placed.chain.name);
        is_builtin && is_masquerade && !is_scoped
    });
    if let Some(placed) = other {
        let message = format!("{} also masquerades pod traffic", placed.chain.name);
        let effect = "pods' packets may get a node's address although kube-proxy keeps their source";
        found.push(Finding::new("cni-masquerade", tables.place(placed.line), message, effect));
    }
    found.extend(off_cluster(tables, &rules));
    found
}

/// Whether connections from outside of the cluster to cluster IPs are masqueraded.
fn off_cluster(tables: Tables<'_>, rules: &[Placed<'_>]) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_cluster_ip = |rule: &Rule| rule.comment().is_some_and(|comment| comment.ends_with("cluster IP"));
    let leads = |rule: &Rule, to: &str| rule.next_chain().is_some_and(|next| **next == *to);
    let mut portals = rules.iter().filter(|placed| {
        is_cluster_ip(placed.rule) && placed.rule.next_chain().is_some_and(|next| ChainKind::Service.is_of(next))
    });
    let first = portals.next();
    let marking: Vec<&Placed<'_>> =
        rules.iter().filter(|placed| is_cluster_ip(placed.rule) && leads(placed.rule, "KUBE-MARK-MASQ")).collect();
    let leads_to =
        |placed: &&Placed<'_>| placed.rule.next_chain().is_some_and(|next| tables.shows(TableName::Nat, next));
    let is_all = tables.shows(TableName::Nat, "KUBE-SERVICES");
    if let Some(placed) = first.filter(leads_to).filter(|_| is_all && marking.is_empty()) {
        let message = "no rule marks connections from outside of the cluster to cluster IPs for masquerading";
        let effect =
            "other hosts and node processes reach a cluster IP only where the reply comes back through this node";
        found.push(Finding::new("no-masquerade", tables.place(placed.line), message, effect));
    }
    found
}

/// Rules that only different releases write.
fn layouts(tables: Tables<'_>) -> Vec<Finding> {
    let marks = |placed: &Placed<'_>| {
        placed.rule.next_chain().is_some_and(|next| &**next == "KUBE-MARK-MASQ")
            && placed.rule.comment().is_some_and(|comment| comment.ends_with("cluster IP"))
    };
    let old = tables.rules().find(|placed| &*placed.chain.name == "KUBE-SERVICES" && marks(placed));
    let new = tables.rules().find(|placed| ChainKind::Service.is_of(&placed.chain.name) && marks(placed));
    let xlb = tables.rules().find(|placed| ChainKind::ExternalLocal.is_of(&placed.chain.name));
    let ext = tables.rules().find(|placed| ChainKind::External.is_of(&placed.chain.name));
    let pair =
        old.zip(new).map(|pair| (pair, "masquerade rules in KUBE-SERVICES (up to 1.21) and in KUBE-SVC (from 1.22)"));
    let pair = pair.or(xlb.zip(ext).map(|pair| (pair, "chains KUBE-XLB (up to 1.23) and KUBE-EXT (from 1.24)")));
    pair.map(|((old, _), what)| {
        let message = format!("layouts of two releases: {what}");
        let effect = "rules of an earlier kube-proxy are left over, or the text shows two nodes or two times";
        Finding::new("mixed-layouts", tables.place(old.line), message, effect)
    })
    .into_iter()
    .collect()
}

/// Rules of a later layout than the nodes' release writes.
fn release(view: &View<'_>) -> Option<Finding> {
    let marks = |placed: &Placed<'_>| {
        let to_mark = placed.rule.next_chain().is_some_and(|next| &**next == "KUBE-MARK-MASQ");
        let is_portal = placed.rule.comment().is_some_and(|comment| comment.ends_with("cluster IP"));
        ChainKind::Service.is_of(&placed.chain.name) && to_mark && is_portal
    };
    let minor = |version: &str| version.strip_prefix("v1.")?.split('.').next()?.parse::<u32>().ok();
    let versions =
        view.objects_of_kind("Node").filter_map(|(_, node)| node["status"]["nodeInfo"]["kubeletVersion"].as_str());
    let newest = versions.filter_map(|version| Some((minor(version)?, version))).max()?;
    let (tables, placed) = view.tables().find_map(|tables| Some((tables, tables.rules().find(&marks)?)))?;
    (newest.0 < 22).then(|| {
        let message = format!("the nodes run {}, but rules that mark connections in KUBE-SVC are of 1.22 or later", newest.1);
        let effect = "kube-proxy has another release than the kubelet, or the dumps are from different clusters: trust the rules";
        Finding::new("mixed-layouts", tables.place(placed.line), message, effect)
    })
}

/// Chains and sets of other modes.
fn other_mode(tables: Tables<'_>) -> Vec<Finding> {
    let services = tables.rules().any(|placed| ChainKind::Service.is_of(&placed.chain.name));
    let known =
        tables.rules().find_map(|placed| Some((placed, evidence::other_mode(placed.rule, &placed.chain.name)?)));
    known
        .map(|(placed, mode)| {
            if !services {
                let message = format!("the rules are those of {mode} mode, which svclab does not emulate");
                let effect = "unknown: what decides on connections to Services is not in these rules";
                return Finding::new("other-mode", tables.place(placed.line), message, effect).graded(Severity::Info);
            }
            let message = format!("the node has rules of {mode} mode and of iptables mode");
            let effect = "leftovers of another mode may take connections before kube-proxy's current rules do; restarting kube-proxy with --cleanup removes them";
            Finding::new("other-mode", tables.place(placed.line), message, effect)
        })
        .into_iter()
        .collect()
}

/// Whether the program that printed a rule did not understand it.
pub(super) fn is_of_older_iptables(unread: &Unread) -> bool {
    OLDER.iter().any(|mark| unread.text.contains(mark))
}

/// Rules that the program which printed them did not understand, once for each file.
fn skew(view: &View<'_>) -> Vec<Finding> {
    let mut of_file: Vec<Vec<&Unread>> = Vec::new();
    for unread in view.evidence.unread.iter().filter(|unread| is_of_older_iptables(unread)) {
        match of_file.iter_mut().find(|known| known[0].file == unread.file) {
            Some(known) => known.push(unread),
            None => of_file.push(vec![unread]),
        }
    }
    let finding = |all: &Vec<&Unread>| {
        let place = super::Place { file: all[0].file.clone(), line: all[0].line };
        let message = match all.as_slice() {
            [_, .., last] => format!(
                "the iptables that printed these {} rules, the last at line {}, is older than the one that wrote them",
                all.len(),
                last.line
            ),
            _ => "the iptables that printed this rule is older than the one that wrote it".to_owned(),
        };
        let effect = "what it prints, and what it restores, is not what the kernel has";
        Finding::new("reader-skew", place, message, effect).graded(Severity::Warning)
    };
    of_file.iter().map(finding).collect()
}
