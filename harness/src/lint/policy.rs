//! Services without endpoints: their rejection, and what precedes it.

use std::net::SocketAddr;

use serde_json::Value;
use svclab_rules::compare::{Difference, Fact, Policy, Subject};
use svclab_rules::iptables::{Rule, TableName, Target};

use super::finding::{Finding, Place, subject_of_chain};
use super::rejections::LOCAL_DROPS;
use super::view::{Tables, View};
use crate::infer::Deviation;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    view.tables().flat_map(before_reject).collect()
}

/// Another program's rule that accepts everything before the rejection of Services without endpoints.
fn before_reject(tables: Tables<'_>) -> Vec<Finding> {
    let rejects = |chain: &str| {
        tables
            .parsed
            .rules
            .rules(TableName::Filter, chain)
            .iter()
            .any(|rule| matches!(rule.target, Some(Target::Reject(_))))
    };
    if !rejects("KUBE-SERVICES") && !rejects("KUBE-EXTERNAL-SERVICES") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for name in ["FORWARD", "OUTPUT"] {
        // A rule that accepts everything may be that of one interface.
        let shown = tables.chain(TableName::Filter, name).filter(|_| !tables.hides_interfaces(TableName::Filter, name));
        let Some(chain) = shown else { continue };
        let services = chain.rules.iter().position(|rule| {
            rule.next_chain().is_some_and(|next| matches!(&**next, "KUBE-SERVICES" | "KUBE-EXTERNAL-SERVICES"))
        });
        let accepts = chain.rules.iter().position(|rule| rule.target == Some(Target::Accept) && takes_new(rule));
        if let (Some(accepts), Some(services)) = (accepts, services)
            && accepts < services
        {
            let message = format!(
                "a rule of {name} accepts packets before KUBE-SERVICES can reject those to Services without endpoints"
            );
            let effect = "connections to such Services time out where they should be rejected";
            let place = tables.place(tables.line(TableName::Filter, name, accepts));
            let subject = subject_of_chain(TableName::Filter.as_str(), name);
            found.push(Finding::new("accept-before-reject", place, message, effect).about([subject]));
        }
    }
    found
}

/// Whether a rule takes first packets to addresses of services.
fn takes_new(rule: &Rule) -> bool {
    let is_conditional = rule.matches.iter().any(|one| !one.always_holds());
    rule.destination.is_none() && rule.in_interface.is_none() && rule.out_interface.is_none() && !is_conditional
}

/// Turns what is said of Services that have no endpoint on a node into errors, where objects show that the node has one: then it is not
/// intended. Otherwise rules of local endpoints are not missing. In neither case are these findings of their own.
pub(super) fn judge_local_drops(view: &View<'_>, found: &mut Vec<Finding>, deviations: &[Deviation]) {
    let mut dropped: Vec<(Place, String)> = Vec::new();
    for finding in found.iter_mut().filter(|finding| LOCAL_DROPS.contains(&finding.id)) {
        let of_file =
            deviations.iter().filter(|deviation| view.are_of_one_set(&finding.place, deviation.file.as_deref()));
        let lacking =
            of_file.filter_map(|deviation| match (&deviation.finding.subject, &deviation.finding.difference) {
                (Subject::Service(service), Difference::Missing(Fact::Endpoint(Policy::Local, endpoint))) => finding
                    .message
                    .starts_with(&format!("{service} has"))
                    .then_some((service, endpoint, &deviation.node)),
                _ => None,
            });
        let lacking: Vec<_> = lacking.collect();
        let Some((service, ..)) = lacking.first() else { continue };
        dropped.push((finding.place.clone(), (*service).clone()));
        let is_shown = |endpoint: &str, node: &str| {
            endpoint.parse().is_ok_and(|endpoint: SocketAddr| is_on(view, &endpoint.ip().to_string(), node))
        };
        let here = lacking.iter().filter(|(_, endpoint, node)| is_shown(endpoint, node));
        let here: Vec<&str> = here.map(|(_, endpoint, _)| endpoint.as_str()).collect();
        if !here.is_empty() {
            let message = format!(
                "{service} has traffic policy Local, and {} on this node, but the rules have no local endpoint: its \
                 connections are dropped here",
                here.join(", ")
            );
            let effect =
                "kube-proxy does not take the endpoint for local: connections from outside to this node time out";
            *finding = Finding::new("no-local-endpoints", finding.place.clone(), message, effect);
        }
    }
    found.retain(|finding| {
        let is_consequence = |(place, service): &(Place, String)| {
            view.are_of_one_set(place, finding.place.file.as_deref())
                && finding.subjects.contains(&Subject::Service(service.clone()))
                && LOCAL.iter().any(|words| finding.message.contains(words))
        };
        !matches!(finding.id, "missing-rule" | "deviation") || !dropped.iter().any(is_consequence)
    });
}

/// What findings contain that follow from having no local endpoint.
const LOCAL: [&str; 4] =
    [" for policy Local is missing", " KUBE-SVL-", "the rejection of traffic to ", "the rejection of other traffic"];

/// Whether objects show that a pod with this address is on a node.
fn is_on(view: &View<'_>, ip: &str, node: &str) -> bool {
    let is_pod = |(_, pod): (&Place, &Value)| pod["spec"]["nodeName"] == node && pod["status"]["podIP"] == ip;
    let endpoints = |slice: &Value| slice["endpoints"].as_array().cloned().unwrap_or_default();
    let has = |endpoint: &Value| {
        endpoint["nodeName"] == node
            && endpoint["addresses"].as_array().is_some_and(|own| own.iter().any(|address| address == ip))
    };
    view.objects_of_kind("Pod").any(is_pod)
        || view.objects_of_kind("EndpointSlice").any(|(_, slice)| endpoints(slice).iter().any(has))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::lint::tests::ids;

    /// The rules of issues from 1.14 to 1.23 about kubernetes#71851: packets are marked to be dropped.
    const MARKED: &str = "root@w1:~# iptables-save | grep nginx-ext
-A KUBE-NODEPORTS -s 127.0.0.0/8 -p tcp -m comment --comment \"default/nginx-ext:\" -m tcp --dport 32204 -j KUBE-MARK-MASQ
-A KUBE-NODEPORTS -p tcp -m comment --comment \"default/nginx-ext:\" -m tcp --dport 32204 -j KUBE-XLB-ICKQE4PTG2WGVXBF
-A KUBE-SEP-3IHHUFR2KYE7CM33 -s 10.44.0.56/32 -m comment --comment \"default/nginx-ext:\" -j KUBE-MARK-MASQ
-A KUBE-SEP-3IHHUFR2KYE7CM33 -p tcp -m comment --comment \"default/nginx-ext:\" -m tcp -j DNAT --to-destination 10.44.0.56:80
-A KUBE-SERVICES ! -s 10.32.0.0/12 -d 10.108.2.154/32 -p tcp -m comment --comment \"default/nginx-ext: cluster IP\" -m tcp --dport 80 -j KUBE-MARK-MASQ
-A KUBE-SERVICES -d 10.108.2.154/32 -p tcp -m comment --comment \"default/nginx-ext: cluster IP\" -m tcp --dport 80 -j KUBE-SVC-ICKQE4PTG2WGVXBF
-A KUBE-SVC-ICKQE4PTG2WGVXBF -m comment --comment \"default/nginx-ext:\" -j KUBE-SEP-3IHHUFR2KYE7CM33
-A KUBE-XLB-ICKQE4PTG2WGVXBF -m comment --comment \"default/nginx-ext: has no local endpoints\" -j KUBE-MARK-DROP
root@w1:~# kubectl get pods -o wide
NAME                         READY   STATUS    RESTARTS   AGE   IP           NODE   NOMINATED NODE
nginx-ext-6bd4c6b8c8-5xk2p   1/1     Running   1          14h   10.44.0.56   w1     <none>
client-6bd4c6b8c8-5xk2q      1/1     Running   1          14h   10.45.0.57   w2     <none>
";

    /// Such a drop is the one finding, at its line.
    #[rstest]
    #[case::here("w1", "no-local-endpoints")]
    #[case::elsewhere("w2", "local-drop")]
    fn a_marked_drop_is_an_error_on_the_node_of_the_endpoint(#[case] node: &str, #[case] expected: &str) {
        let pod = |node: &str| format!("10.44.0.56   {node} ");
        let text = MARKED.replace(&pod("w1"), &pod(node));
        assert_eq!(ids(&text), [expected]);
    }
}
