//! Services that have no endpoints of use, as lists of endpoints show, whatever the rules are.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::Value;
use svclab_rules::cluster::Family;
use svclab_rules::compare::Subject;

use super::finding::{Finding, Place};
use super::listed::endpoint_objects;
use super::rejections::{rejected, rejected_services};
use super::view::View;
use crate::evidence::{endpoints, is_cut};
use crate::infer::accessors;
use crate::text::list;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let listed = listed(view);
    without_endpoints(view, &listed).into_iter().chain(of_other_family(view, &listed)).collect()
}

/// The endpoints of each Service by namespace and name; `None` where lists are cut off.
type Listed = BTreeMap<String, Option<BTreeSet<IpAddr>>>;

fn listed(view: &View<'_>) -> Listed {
    let mut all = Listed::new();
    for (service, object) in endpoint_objects(view) {
        // `kubectl get services` does not list them.
        if object["kind"] == "Service" && !object["endpoints"].is_array() {
            continue;
        }
        let own = endpoints(object).into_iter().flat_map(|endpoint| endpoint.addresses);
        let known = all.entry(service).or_insert_with(|| Some(BTreeSet::new()));
        match known {
            Some(known) if !is_cut(object) => known.extend(own),
            _ => *known = None,
        }
    }
    all
}

/// The Services that kube-proxy serves, each with its place and its name.
fn served<'v>(view: &'v View<'_>) -> impl Iterator<Item = (&'v Place, String, &'v Value)> {
    let is_served =
        |service: &Value| service["spec"]["type"] != "ExternalName" && service["spec"]["clusterIP"] != "None";
    let all = view.objects_of_kind("Service").filter(move |(_, service)| is_served(service));
    all.map(move |(place, service)| (place, accessors::name(service), service))
}

/// The Services of which rules say themselves what a node does with their connections.
fn in_rules(view: &View<'_>) -> BTreeSet<String> {
    let ports = view.ports.iter().flatten();
    let served = ports.filter(|port| !(port.endpoints.is_empty() && port.local.is_empty()));
    let rejected = view.nodes.iter().flat_map(rejected);
    let rejected = rejected.map(|name| name.split(':').next().unwrap_or_default().to_owned());
    served.map(|port| port.service.to_string()).chain(rejected).collect()
}

/// Services whose lists are all shown, and have none, where rules do not say it themselves.
fn without_endpoints(view: &View<'_>, listed: &Listed) -> Option<Finding> {
    let in_rules = in_rules(view);
    let is_empty =
        |name: &str| matches!(listed.get(name), Some(Some(own)) if own.is_empty()) && !in_rules.contains(name);
    let without: Vec<(&Place, String)> =
        served(view).filter(|(_, name, _)| is_empty(name)).map(|(place, name, _)| (place, name)).collect();
    let (place, _) = without.first()?;
    Some(rejected_services(&without.iter().map(|(_, name)| name.as_str()).collect(), (*place).clone()))
}

/// Services whose endpoints all have addresses of a family of which the Service has none.
fn of_other_family(view: &View<'_>, listed: &Listed) -> Vec<Finding> {
    let families = |ips: &BTreeSet<IpAddr>| ips.iter().map(|ip| Family::of(*ip)).collect::<BTreeSet<_>>();
    let finding = |(place, name, service): (&Place, String, &Value)| {
        let spec = &service["spec"];
        let ips = spec["clusterIPs"].as_array().into_iter().flatten().chain([&spec["clusterIP"]]);
        let own: BTreeSet<IpAddr> = ips.filter_map(|ip| ip.as_str()?.parse().ok()).collect();
        let endpoints = listed.get(&name)?.as_ref().filter(|all| !all.is_empty())?;
        if own.is_empty() || !families(&own).is_disjoint(&families(endpoints)) {
            return None;
        }
        let message = format!(
            "{name} has the cluster IP {}, but its endpoints have addresses of the other family: {}",
            list(&own, MAX_NAMED),
            list(endpoints, MAX_NAMED)
        );
        let effect =
            "connections to the Service are rejected: kube-proxy forwards to endpoints of the address's family";
        Some(Finding::new("no-endpoints", place.clone(), message, effect).about([Subject::Service(name)]))
    };
    served(view).filter_map(finding).collect()
}

/// The most addresses that are named.
const MAX_NAMED: usize = 5;

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::lint::tests::ids;

    #[rstest]
    #[case::described("$ kubectl describe svc web\nName:              web\nNamespace:         default\nType:              ClusterIP\nIP:                10.96.0.20\nPort:              <unset>  80/TCP\nTargetPort:        80/TCP\nEndpoints:         <none>\n", &["rejected-service"])]
    #[case::with_a_rule("$ iptables -t nat -L KUBE-NODEPORTS -n | grep 30000\nKUBE-EXT-LOLE4ISW44XBNF3G  tcp  --  0.0.0.0/0            0.0.0.0/0            /* default/web */ tcp dpt:30000\n$ kubectl describe svc web\nName:              web\nNamespace:         default\nType:              NodePort\nIP:                10.96.0.20\nPort:              <unset>  80/TCP\nTargetPort:        80/TCP\nNodePort:          <unset>  30000/TCP\nEndpoints:         \n", &["rejected-service"])]
    #[case::listed("$ kubectl get svc,ep\nNAME          TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nservice/web   ClusterIP   10.96.0.20   <none>        80/TCP    1d\n\nNAME            ENDPOINTS   AGE\nendpoints/web   <none>      1d\n", &["rejected-service"])]
    #[case::with_endpoints("$ kubectl get svc,ep\nNAME          TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nservice/web   ClusterIP   10.96.0.20   <none>        80/TCP    1d\n\nNAME            ENDPOINTS       AGE\nendpoints/web   10.244.1.2:80   1d\n", &[])]
    #[case::of_other_family("$ kubectl get svc,ep\nNAME          TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nservice/web   ClusterIP   fd00::20     <none>        80/TCP    1d\n\nNAME            ENDPOINTS       AGE\nendpoints/web   10.244.1.2:80   1d\n", &["no-endpoints"])]
    #[case::without_a_list("$ kubectl get svc\nNAME          TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nweb           ClusterIP   10.96.0.20   <none>        80/TCP    1d\n", &[])]
    fn lists_of_endpoints_say_what_is_rejected(#[case] text: &str, #[case] expected: &[&str]) {
        assert_eq!(ids(text), expected);
    }
}
