//! Services that a node rejects or drops as intended: without endpoints, or without local ones under a policy Local.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use svclab_rules::cluster::Family;
use svclab_rules::compare::Subject;
use svclab_rules::infer::InferredPort;
use svclab_rules::iptables::{Rule, TableName, Target};
use svclab_rules::nftables::{Element, Key, Statement, Table, Verdict};
use svclab_rules::profile::Profile;
use svclab_rules::ruleset::Rules;
use svclab_rules::walk::Hook;

use super::finding::{Finding, Place};
use super::listed::{ReadyEndpoint, surely_ready};
use super::view::{Tables, View};
use crate::evidence::{NodeRules, releases};
use crate::text::list;

/// The most Services that are named.
const MAX_NAMED: usize = 5;

/// The kinds of findings about Services without a local endpoint.
pub(super) const LOCAL_DROPS: [&str; 2] = ["local-drop", "own-traffic-dropped"];

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let releases: Vec<Profile> = releases(view.evidence).into_iter().map(|release| release.version).collect();
    let ready = surely_ready(view);
    let nodes = view.nodes.iter().zip(&view.ports);
    nodes.flat_map(|(node, ports)| of_node(node, &releases, &Served { ready: &ready, ports })).collect()
}

/// Removes findings about rules that are missing because the rules reject the Service, which is the finding.
pub(super) fn drop_consequences(found: &mut Vec<Finding>) {
    let rejected: Vec<Subject> =
        found.iter().filter(|one| one.id == "no-endpoints").filter_map(|one| one.subject.clone()).collect();
    found.retain(|one| one.id != "missing-rule" || one.subject.as_ref().is_none_or(|own| !rejected.contains(own)));
}

/// The service ports whose connections a node's rules reject, by kube-proxy's names.
pub(super) fn rejected(node: &NodeRules) -> BTreeSet<String> {
    let all = rules_of(node, &[]).into_iter().filter(|rule| !rule.is_dropped);
    all.map(|rule| rule.service.trim_end_matches(':').to_owned()).collect()
}

fn rules_of<'n>(node: &'n NodeRules, releases: &[Profile]) -> Vec<NoEndpoints<'n>> {
    match &node.rules {
        Rules::Iptables(parsed) => of_iptables(Tables { node, parsed }),
        Rules::Nftables(_) => of_nftables(node, releases),
        Rules::OtherTables(_) => Vec::new(),
    }
}

/// The Services with endpoints.
struct Served<'v> {
    /// Those that objects show to be ready, by namespace and name of the Service.
    ready: &'v BTreeMap<String, Vec<ReadyEndpoint>>,
    /// The service ports in the node's rules.
    ports: &'v [InferredPort],
}

impl Served<'_> {
    /// The ready endpoints of the service port of a rule. Endpoints may have no port of that name; where nothing shows the names, they have one
    /// unless another port of the Service has endpoints.
    fn of(&self, rule: &NoEndpoints<'_>) -> BTreeSet<IpAddr> {
        let (service, port) = rule.service.split_once(':').unwrap_or((&rule.service, ""));
        let has_endpoints = |other: &InferredPort| {
            !(other.endpoints.is_empty() && other.local.is_empty()) && other.service.to_string() == service
        };
        let has_port = |endpoint: &&ReadyEndpoint| match &endpoint.ports {
            Some(names) => names.contains(port),
            None => !self.ports.iter().any(has_endpoints),
        };
        let of_service = self.ready.get(service).into_iter().flatten();
        let of_family = of_service.filter(|endpoint| Family::of(endpoint.ip) == rule.family);
        of_family.filter(has_port).map(|endpoint| endpoint.ip).collect()
    }
}

fn of_node(node: &NodeRules, releases: &[Profile], served: &Served<'_>) -> Vec<Finding> {
    let found_rules = rules_of(node, releases);
    let mode = node.rules.mode();
    let mut found: Vec<Finding> = Vec::new();
    for NoEndpoints { service, place, is_before_dnat, .. } in found_rules.iter().filter(|rule| rule.is_dropped) {
        let message = format!(
            "{service} has traffic policy Local and no endpoint on this node: its connections are dropped here"
        );
        let (id, effect) = if *is_before_dnat {
            (
                "own-traffic-dropped",
                "as intended for connections from outside; but before 1.33.6, processes of this node and pods with \
                 hostNetwork cannot reach this address either",
            )
        } else {
            ("local-drop", "as intended: a load balancer's health check keeps connections away from this node")
        };
        found.push(Finding::new(id, place.clone(), message, effect).with_mode(mode));
    }
    let all_rejected = found_rules.iter().filter(|rule| !rule.is_dropped);
    let (with_endpoints, rejected): (Vec<_>, Vec<_>) = all_rejected.partition(|rule| !served.of(rule).is_empty());
    let mut known = BTreeSet::new();
    for rule in with_endpoints.into_iter().filter(|rule| known.insert(&*rule.service)) {
        let ips = served.of(rule);
        let verb = if ips.len() == 1 { "is" } else { "are" };
        let message =
            format!("the rules reject connections to {}, but {} {verb} ready", rule.service, list(ips, MAX_NAMED));
        let effect = "connections to the Service are rejected: kube-proxy has not read these endpoints, or not written \
                      rules since";
        let subject = Subject::Service(rule.service.to_string());
        found.push(Finding::new("no-endpoints", rule.place.clone(), message, effect).with_mode(mode).about(subject));
    }
    if let Some(first) = rejected.first() {
        let services: BTreeSet<&str> = rejected.iter().map(|rule| &*rule.service).collect();
        let (verb, whose) = if services.len() == 1 { ("has", "its") } else { ("have", "their") };
        let message = format!("{} {verb} no endpoints: {whose} connections are rejected", list(services, MAX_NAMED));
        let effect = "as intended: connections are rejected at once while no pod of the Service is ready";
        found.push(Finding::new("rejected-service", first.place.clone(), message, effect).with_mode(mode));
    }
    found
}

/// A rule for a service port without a usable endpoint.
struct NoEndpoints<'n> {
    /// Its name; its address, if nothing names it.
    service: Cow<'n, str>,
    family: Family,
    place: Place,
    /// Whether it drops packets, because other nodes have endpoints.
    is_dropped: bool,
    /// Whether it also drops packets of the node's own processes, which later releases translate first (kubernetes#131765).
    is_before_dnat: bool,
}

/// The chains with rules for Services without endpoints.
const LISTS: [&str; 2] = ["KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES"];

fn of_iptables(tables: Tables<'_>) -> Vec<NoEndpoints<'_>> {
    // Up to 1.23, such packets are marked, and dropped later.
    let drops = |rule: &Rule| {
        rule.target == Some(Target::Drop) || rule.next_chain().is_some_and(|next| **next == *"KUBE-MARK-DROP")
    };
    let mut found_rules = Vec::new();
    for placed in tables.rules() {
        let rule = placed.rule;
        let rejects = matches!(rule.target, Some(Target::Reject(_)));
        let own = match rule.comment().and_then(|comment| comment.split_once(' ')) {
            Some((service, "has no local endpoints")) if drops(rule) => Some((service.into(), true)),
            Some((service, "has no endpoints")) if rejects => Some((service.into(), false)),
            // nft prints no comments of iptables' rules.
            None if LISTS.contains(&&*placed.chain.name) && placed.table == TableName::Filter => {
                let address = rule.destination.as_ref().filter(|to| !to.negated).and_then(|to| to.value.single());
                address.filter(|_| rejects || drops(rule)).map(|address| (address.to_string().into(), !rejects))
            }
            _ => None,
        };
        found_rules.extend(own.map(|(service, is_dropped)| NoEndpoints {
            service,
            family: tables.parsed.rules.family,
            place: tables.place(placed.line),
            is_dropped,
            is_before_dnat: false,
        }));
    }
    found_rules
}

fn of_nftables<'n>(node: &'n NodeRules, releases: &[Profile]) -> Vec<NoEndpoints<'n>> {
    let Some(parsed) = node.rules.nftables() else { return Vec::new() };
    let sets = parsed
        .rules
        .tables
        .iter()
        .enumerate()
        .flat_map(|(table, own)| own.sets.iter().enumerate().map(move |(at, set)| (table, at, set)));
    let of_rejections = sets.filter(|(.., set)| set.name.starts_with("no-endpoint-"));
    let drops = |element: &Element| match element.verdict.as_ref()? {
        Verdict::Drop => Some(true),
        Verdict::Goto(_) | Verdict::Jump(_) => Some(false),
        _ => None,
    };
    let mut found_rules = Vec::new();
    for (table, set_at, set) in of_rejections {
        let own = &parsed.rules.tables[table];
        let is_before_dnat = *set.name == *"no-endpoint-services" && checks_before_dnat(own, releases);
        let is_cluster_ip = |element: &Element| {
            let all = own.set("cluster-ips").map(|all| all.elements.as_slice()).unwrap_or_default();
            all.iter().any(|one| matches!(one.key.first(), ip @ Some(Key::Address(_)) if ip == element.key.first()))
        };
        for (at, element) in set.elements.iter().enumerate() {
            let Some((service, drops)) = element.comment.as_deref().zip(drops(element)) else { continue };
            let line = parsed.lines.element(table, set_at, at).unwrap_or(node.first);
            found_rules.push(NoEndpoints {
                service: service.into(),
                family: own.family,
                place: Place { file: node.file.clone(), line },
                is_dropped: drops,
                is_before_dnat: is_before_dnat && !is_cluster_ip(element),
            });
        }
    }
    found_rules
}

/// Whether packets of the node's own processes are checked before they are translated: as the table's chains show, or else unless all
/// releases that the text names translate first.
fn checks_before_dnat(table: &Table, releases: &[Profile]) -> bool {
    let checks = |statement: &Statement| matches!(statement, Statement::Verdict(Verdict::Jump(next)) if **next == *"service-endpoints-check");
    let of_output =
        table.chains.iter().filter_map(|chain| Some((chain, chain.base.filter(|base| base.hook == Hook::Output)?)));
    let mut checking =
        of_output.filter(|(chain, _)| chain.rules.iter().flat_map(|rule| &rule.statements).any(checks)).peekable();
    if checking.peek().is_some() {
        return checking.any(|(_, base)| base.priority < DNAT);
    }
    releases.is_empty() || !releases.iter().all(|release| release.nftables_filters_translated())
}

/// The priority of chains that translate destinations.
const DNAT: i32 = -100;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

    use rstest::rstest;

    use crate::evidence::read;
    use crate::lint::{Severity, lint};

    /// In saved rules of all releases, in listings, and in maps of nftables; before 1.24, what is dropped is only marked.
    #[rstest]
    #[case::saved(
        "-A KUBE-SERVICES -d 10.43.52.119/32 -p tcp -m comment --comment \"default/x:http has no endpoints\" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable",
        "rejected-service"
    )]
    #[case::listed(
        "Chain KUBE-SERVICES (2 references)\ntarget     prot opt source               destination\nREJECT     tcp  --  anywhere             10.43.52.119         /* default/x:http has no endpoints */ tcp dpt:http reject-with icmp-port-unreachable",
        "rejected-service"
    )]
    #[case::without_heading(
        "REJECT     tcp  --  anywhere             10.43.52.119         /* default/x:http has no endpoints */ tcp dpt:http reject-with icmp-port-unreachable",
        "rejected-service"
    )]
    #[case::local(
        "-A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment \"default/x:http has no local endpoints\" -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j DROP",
        "local-drop"
    )]
    #[case::marked(
        "-A KUBE-XLB-ICKQE4PTG2WGVXBF -m comment --comment \"default/x:http has no local endpoints\" -j KUBE-MARK-DROP",
        "local-drop"
    )]
    fn services_without_endpoints_are_named(#[case] rules: &str, #[case] id: &str) {
        let found = lint(&read(rules));
        let own: Vec<_> = found.iter().filter(|one| one.id == id).collect();
        assert_eq!(own.len(), 1, "{found:?}");
        let is_named = own[0].message.starts_with("default/x:http has ");
        assert!(is_named && own[0].severity == Severity::Info && own[0].place.line == rules.lines().count(), "{own:?}");
    }

    /// kubernetes#93682: rules that reject connections to a Service with endpoints are no consequence of having none.
    #[rstest]
    #[case::listed(
        "NAMESPACE   NAME   ENDPOINTS        AGE\ndefault     x      172.16.23.8:80   43d\n",
        "no-endpoints"
    )]
    #[case::cut(
        "NAMESPACE   NAME   ENDPOINTS                                                  AGE\n\
         default     x      172.16.23.4:53,172.16.99.3:53,172.16.23.4:53 + 1 more...   43d\n",
        "no-endpoints"
    )]
    #[case::none("NAMESPACE   NAME   ENDPOINTS   AGE\ndefault     x      <none>      43d\n", "rejected-service")]
    #[case::other_family(
        "NAMESPACE   NAME   ENDPOINTS          AGE\ndefault     x      [fd00::23:8]:80   43d\n",
        "rejected-service"
    )]
    fn a_service_with_endpoints_is_not_rejected_as_intended(#[case] endpoints: &str, #[case] expected: &str) {
        let rule = "$ iptables-save | grep default/x\n-A KUBE-SERVICES -d 10.43.52.119/32 -p tcp -m comment --comment \"default/x:http has no endpoints\" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable\n";
        let found = lint(&read(&format!("{rule}\n$ kubectl get ep -A\n{endpoints}")));
        let grave = |id: &str| !["assumed-setting", "no-masquerade"].contains(&id);
        let ids: Vec<_> = found.iter().map(|one| one.id).filter(|id| grave(id)).collect();
        assert_eq!(ids, [expected], "{found:?}");
    }

    /// kubernetes#131765: before 1.33.6, packets of the node's own processes are checked before they are translated.
    #[rstest]
    #[case::unknown("", "own-traffic-dropped")]
    #[case::before("Server Version: v1.32.1\n", "own-traffic-dropped")]
    #[case::after("Server Version: v1.34.0\n", "local-drop")]
    #[case::chain_before(
        "chain filter-output {\n\t\ttype filter hook output priority -110; policy accept;\n\t\tct state new jump service-endpoints-check\n\t}\n\tchain service-endpoints-check {\n\t}\n",
        "own-traffic-dropped"
    )]
    #[case::chain_after(
        "chain filter-output {\n\t\ttype filter hook output priority 0; policy accept;\n\t\tct state new jump service-endpoints-check\n\t}\n\tchain service-endpoints-check {\n\t}\n",
        "local-drop"
    )]
    fn drops_before_translation_are_told_apart(#[case] more: &str, #[case] id: &str) {
        let map = "\tmap no-endpoint-services {\n\t\ttype ipv4_addr . inet_proto . inet_service : verdict\n\t\telements = { 10.88.1.2 . tcp . 80 comment \"default/lb\" : drop }\n\t}\n";
        let (before, chains) = if more.starts_with("chain") { ("", more) } else { (more, "") };
        let found = lint(&read(&format!("{before}table ip kube-proxy {{\n{map}\t{chains}}}\n")));
        let own: Vec<_> = found.iter().filter(|one| one.message.starts_with("default/lb has ")).collect();
        assert_eq!(own.iter().map(|one| one.id).collect::<Vec<_>>(), [id], "{found:?}");
    }

    /// nft prints no comments of iptables' rules: then an address stands for the Service.
    #[test]
    fn a_rejection_without_a_comment_is_that_of_an_address() {
        let text = "*filter\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -d 10.43.52.119/32 -p tcp -m tcp --dport 80 -j REJECT\nCOMMIT\n";
        let found = lint(&read(text));
        let own: Vec<_> = found.iter().filter(|one| one.id == "rejected-service").collect();
        assert!(own.len() == 1 && own[0].message.starts_with("10.43.52.119 has no endpoints"), "{found:?}");
    }

    #[rstest]
    #[case::rejected("goto reject-chain", "rejected-service")]
    #[case::dropped("drop", "own-traffic-dropped")]
    fn maps_of_nftables_name_services_without_endpoints(#[case] verdict: &str, #[case] id: &str) {
        let file = "../rules/tests/golden/node-hints/v1.33-nftables/nft-ruleset.txt";
        let text = std::fs::read_to_string(file).unwrap();
        let map = "\tmap no-endpoint-services {\n";
        let at = text.find(map).unwrap();
        let elements =
            format!("\t\telements = {{ 10.96.0.99 . tcp . 80 comment \"default/x:http\" : {verdict} }}\n\t}}\n");
        let end = text[at..].find("\t}\n").unwrap() + at;
        let text = format!("{}{elements}{}", &text[..end], &text[end + 3..]);
        let line = text.lines().position(|line| line.contains("10.96.0.99")).unwrap() + 1;
        let found = lint(&read(&text));
        let own: Vec<_> = found.iter().filter(|one| one.message.starts_with("default/x:http has ")).collect();
        assert_eq!(own.iter().map(|one| (one.id, one.place.line)).collect::<Vec<_>>(), [(id, line)], "{found:?}");
    }
}
