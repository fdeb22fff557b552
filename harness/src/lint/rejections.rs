//! Services that a node rejects or drops as intended: without endpoints, or without local ones under a policy Local.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
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
use super::port_names::port_name;
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
    nodes.flat_map(|(node, ports)| of_node(node, &releases, &Served::of(&ready, ports))).collect()
}

/// Removes findings about rules that are missing because the rules reject the Service, which is the finding.
pub(super) fn drop_consequences(found: &mut Vec<Finding>) {
    let unread = found.iter().filter(|one| one.id == "no-endpoints");
    let rejected: HashSet<Subject> = unread.flat_map(|one| one.subjects.iter().cloned()).collect();
    found.retain(|one| one.id != "missing-rule" || !one.subjects.iter().any(|own| rejected.contains(own)));
}

/// The service ports whose connections a node's rules reject, by kube-proxy's names.
pub(super) fn rejected(node: &NodeRules) -> BTreeSet<String> {
    let all = rules_of(node, &[]).into_iter().filter(|rule| !rule.is_dropped);
    all.map(|rule| port_name(&rule.service).to_owned()).collect()
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
    /// Those that the node's rules give endpoints.
    in_rules: HashSet<String>,
}

impl<'v> Served<'v> {
    fn of(ready: &'v BTreeMap<String, Vec<ReadyEndpoint>>, ports: &[InferredPort]) -> Self {
        let served = ports.iter().filter(|port| !(port.endpoints.is_empty() && port.local.is_empty()));
        Self { ready, in_rules: served.map(|port| port.service.to_string()).collect() }
    }

    /// The ready endpoints of the service port of a rule. Endpoints may have no port of that name; where nothing shows the names, they have one
    /// unless another port of the Service has endpoints.
    fn endpoints(&self, rule: &NoEndpoints<'_>) -> BTreeSet<IpAddr> {
        let (service, port) = rule.service.split_once(':').unwrap_or((&rule.service, ""));
        let has_port = |endpoint: &&ReadyEndpoint| match &endpoint.ports {
            Some(names) => names.contains(port),
            None => !self.in_rules.contains(service),
        };
        let of_service = self.ready.get(service).into_iter().flatten();
        let of_family = of_service.filter(|endpoint| Family::of(endpoint.ip) == rule.family);
        of_family.filter(has_port).map(|endpoint| endpoint.ip).collect()
    }
}

fn of_node(node: &NodeRules, releases: &[Profile], served: &Served<'_>) -> Vec<Finding> {
    let found_rules = rules_of(node, releases);
    let (dropped, rejected): (Vec<_>, Vec<_>) = found_rules.iter().partition(|rule| rule.is_dropped);
    let with_endpoints = rejected.into_iter().map(|rule| (rule, served.endpoints(rule)));
    let (unread, rejected): (Vec<_>, Vec<_>) = with_endpoints.partition(|(_, endpoints)| !endpoints.is_empty());
    let rejected: Vec<&NoEndpoints<'_>> = rejected.into_iter().map(|(rule, _)| rule).collect();
    let found = dropped.into_iter().map(|rule| locally_dropped(rule, rule.place.clone()));
    let found = found.chain(unread.first().map(|(first, _)| with_unread_endpoints(&unread, first.place.clone())));
    let found = found.chain(rejected.first().map(|first| without_endpoints(&rejected, first.place.clone())));
    found.map(|finding| finding.with_mode(node.rules.mode())).collect()
}

fn locally_dropped(rule: &NoEndpoints<'_>, place: Place) -> Finding {
    let message = format!(
        "{} has traffic policy Local and no endpoint on this node: its connections are dropped here",
        rule.service
    );
    let (id, effect) = if rule.is_before_dnat {
        (
            "own-traffic-dropped",
            "as intended for connections from outside; but before 1.33.6, processes of this node and pods with \
             hostNetwork cannot reach this address either",
        )
    } else {
        (
            "local-drop",
            "as intended: only nodes with a pod of the Service take such connections, and load balancers check which do",
        )
    };
    Finding::new(id, place, message, effect)
}

/// Rejections of service ports that have ready endpoints.
fn with_unread_endpoints(rules: &[(&NoEndpoints<'_>, BTreeSet<IpAddr>)], place: Place) -> Finding {
    let services: BTreeSet<&str> = rules.iter().map(|(rule, _)| &*rule.service).collect();
    let ips: BTreeSet<&IpAddr> = rules.iter().flat_map(|(_, endpoints)| endpoints).collect();
    let verb = if ips.len() == 1 { "is" } else { "are" };
    let whose = if services.len() == 1 { "the Service" } else { "these Services" };
    let message = format!(
        "the rules reject connections to {}, but {} {verb} ready",
        list(services.iter().map(|name| port_name(name)), MAX_NAMED),
        list(ips, MAX_NAMED)
    );
    let effect = format!(
        "connections to {whose} are rejected: kube-proxy has not read these endpoints, or not written rules since"
    );
    let subjects = services.into_iter().map(|name| Subject::Service(name.to_owned()));
    Finding::new("no-endpoints", place, message, effect).about(subjects)
}

/// Rejections of service ports without endpoints.
fn without_endpoints(rules: &[&NoEndpoints<'_>], place: Place) -> Finding {
    rejected_services(&rules.iter().map(|rule| port_name(&rule.service)).collect(), place)
}

/// Services whose connections are rejected because they have no endpoints.
pub(super) fn rejected_services(services: &BTreeSet<&str>, place: Place) -> Finding {
    let (verb, whose) = if services.len() == 1 { ("has", "its") } else { ("have", "their") };
    let message = format!("{} {verb} no endpoints: {whose} connections are rejected", list(services, MAX_NAMED));
    let effect = "as intended: connections are rejected at once while no pod of the Service is ready";
    Finding::new("rejected-service", place, message, effect)
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
        let all = own.set("cluster-ips").map(|all| all.elements.as_slice()).unwrap_or_default();
        let addresses = all.iter().filter_map(|one| one.key.first()).filter(|key| matches!(key, Key::Address(_)));
        let cluster_ips: HashSet<&Key> = addresses.collect();
        let is_cluster_ip =
            |element: &Element| element.key.first().is_some_and(|address| cluster_ips.contains(address));
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

    /// A kube-proxy that stopped reading rejects many Services: that is one finding.
    #[test]
    fn rejected_services_with_endpoints_are_one_finding() {
        let names = ["a:", "b", "c", "d", "e", "f", "g"];
        let rule = |(at, name): (usize, &&str)| {
            format!(
                "-A KUBE-SERVICES -d 10.43.52.{at}/32 -p tcp -m comment --comment \"default/{name} has no endpoints\" -m tcp --dport 80 -j REJECT\n"
            )
        };
        let row = |(at, name): (usize, &&str)| {
            format!("default     {}      172.16.23.{at}:80    43d\n", name.trim_matches(':'))
        };
        let rules: String = names.iter().enumerate().map(rule).collect();
        let rows: String = names.iter().enumerate().map(row).collect();
        let table = format!("$ kubectl get ep -A\nNAMESPACE   NAME   ENDPOINTS           AGE\n{rows}");
        let found = lint(&read(&format!("$ iptables-save | grep default/\n{rules}\n{table}")));
        let messages: Vec<&str> =
            found.iter().filter(|one| one.id == "no-endpoints").map(|one| &*one.message).collect();
        let expected = "the rules reject connections to default/a, default/b, default/c, default/d, default/e and 2 more, but \
            172.16.23.0, 172.16.23.1, 172.16.23.2, 172.16.23.3, 172.16.23.4 and 2 more are ready";
        assert_eq!(messages, [expected], "{found:?}");
        assert!(found.iter().all(|one| one.id != "missing-rule"), "{found:?}");
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
