//! Kubernetes objects in a text beside rules: what both say of a Service goes together, and one that cannot be read does not stop the rest.

use std::path::Path;

use rstest::rstest;
use svclab::evidence;
use svclab::infer::{self, Assumed, Connections};
use svclab_rules::cluster::{ExternalTrafficPolicy, InternalTrafficPolicy};

use crate::assumptions;

fn imported(text: &str) -> Assumed {
    infer::from_evidence(&evidence::read(text), Path::new("dump"), &[], Connections::LeftOut)
        .unwrap_or_else(|errors| panic!("{errors}"))
}

/// The ports of a Service, and those of its endpoints.
fn ports(assumed: &Assumed, name: &str) -> (Vec<u16>, Vec<u16>) {
    let cluster = &assumed.scenario.cluster;
    let services = cluster.services.iter().filter(|service| service.name.name == name);
    let own = services.flat_map(|service| &service.ports).map(|port| port.port).collect();
    let slices = cluster.slices.iter().filter(|slice| slice.service.name == name);
    (own, slices.flat_map(|slice| &slice.ports).filter_map(|port| port.port).collect())
}

/// Rules of a Service, none of which shows its port or an endpoint.
const NODE_PORT: &str = "```
-A KUBE-NODEPORTS -p udp -m comment --comment \"infra/statsd:dogstatsd\" -m udp --dport 30125 -j KUBE-XLB-5DULF7GDAT3CNN73
-A KUBE-XLB-5DULF7GDAT3CNN73 -m comment --comment \"masquerade LOCAL traffic for infra/statsd:dogstatsd LB IP\" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ
```
";

fn manifest(target: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: statsd\n  namespace: infra\nspec:\n  type: NodePort\n  ports:\n    \
         - name: dogstatsd\n      protocol: UDP\n      port: 8125\n      nodePort: 30125\n{target}  externalTrafficPolicy: Local\n"
    )
}

/// Endpoints that are made up have the port that the Service's object names; without a `targetPort`, the Service's own.
#[rstest]
#[case::same(manifest(""), 8125)]
#[case::other(manifest("      targetPort: 9125\n"), 9125)]
#[case::text(manifest("      targetPort: \"9125\"\n"), 9125)]
#[case::named(manifest("      targetPort: statsd\n"), 8125)]
#[case::table("$ kubectl get svc -n infra\nNAME     TYPE       CLUSTER-IP    EXTERNAL-IP   PORT(S)          AGE\nstatsd   NodePort   10.96.7.8     <none>        8125:30125/UDP   4d\n".to_owned(), 8125)]
#[case::described("Name:              statsd\nNamespace:         infra\nType:              NodePort\nIP:                10.96.7.8\nPort:              dogstatsd  8125/UDP\nTargetPort:        9125/UDP\nNodePort:          dogstatsd  30125/UDP\n".to_owned(), 9125)]
fn made_up_endpoints_have_the_target_port(#[case] object: String, #[case] expected: u16) {
    let assumed = imported(&format!("{object}\n{NODE_PORT}"));
    let said = assumptions(&assumed).join("\n");
    let (own, mut served) = ports(&assumed, "statsd");
    served.dedup();
    assert!(!said.contains(", port 30125"), "{said}");
    let is_served = !said.contains("whose endpoints there nothing shows") || served == [expected];
    assert!(own == [8125] && is_served, "{own:?} {served:?} {said}");
}

/// Rules without a comment are those of the Service that has their hash, node port or address: it is called so everywhere.
#[rstest]
#[case::cluster_ip(
    "apiVersion: v1\nkind: Service\nmetadata:\n  name: shop\nspec:\n  clusterIP: 10.96.5.6\n  ports:\n    - port: 80\n",
    "-A KUBE-SERVICES -d 10.96.5.6/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-3Y4IBFDS3N4DHOKS\n"
)]
#[case::node_port(
    "NAME   TYPE       CLUSTER-IP   EXTERNAL-IP   PORT(S)        AGE\nshop   NodePort   10.96.5.6    <none>        80:30199/TCP   11s\n",
    "-A KUBE-NODEPORTS -p tcp -m tcp --dport 30199 -j KUBE-SVC-3Y4IBFDS3N4DHOKS\n"
)]
#[case::hash(
    "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  ports:\n    - name: http\n      port: 80\n",
    "-A KUBE-SVC-CDGGSHYLG3RE2FKL -j KUBE-SEP-GWQABTP5GBYXHJY5\n"
)]
#[case::without_namespace(
    "",
    "-A KUBE-NODEPORTS -p tcp -m comment --comment \"shop:http\" -m tcp --dport 30199 -j KUBE-SVC-3Y4IBFDS3N4DHOKS\n"
)]
fn services_have_the_name_that_the_text_gives(#[case] object: &str, #[case] rule: &str) {
    // The second rule is not kube-proxy's, so that a difference names the Service.
    let chain = if rule.contains("CDGGSH") { "KUBE-SVC-CDGGSHYLG3RE2FKL" } else { "KUBE-SVC-3Y4IBFDS3N4DHOKS" };
    let assumed = imported(&format!("{object}\n```\n{rule}-A {chain} -p tcp -m tcp --dport 81 -j RETURN\n```\n"));
    let said = assumptions(&assumed);
    let differences = said.iter().filter(|words| words.starts_with("kube-proxy ")).collect::<Vec<_>>();
    assert!(!differences.iter().any(|words| words.contains("unnamed-")), "{said:#?}");
    let services: Vec<String> =
        assumed.scenario.cluster.services.iter().map(|service| service.name.to_string()).collect();
    assert!(matches!(&*services, [one] if matches!(&**one, "default/shop" | "default/web")), "{services:?} {said:#?}");
}

/// Where only the names of chains show Services, their usual ports are those of the names, and the API server is a machine.
#[test]
fn usual_ports_of_services_that_hashes_name() {
    let assumed = imported(
        "-A KUBE-SVC-ERIFXISQEP7F7OF4 -j KUBE-SEP-3XNNUTOINYOJBQ7G\n\
         -A KUBE-SVC-NPX46M4PTMTKRN6Y -j KUBE-SEP-4CZIQX2RWSGSJM5N\n\
         -A KUBE-SVC-TCOU7JCQXEZGVUNU -j KUBE-SEP-HWJ4WUYN3SLRBY5V\n",
    );
    let said = assumptions(&assumed).join("\n");
    assert_eq!(ports(&assumed, "kubernetes"), (vec![443], vec![6443]), "{said}");
    assert_eq!(ports(&assumed, "kube-dns"), (vec![53, 53], vec![53, 53]), "{said}");
    assert_addresses_apart(&assumed, &said);
}

/// No node's address is in a pod range of another node.
fn assert_addresses_apart(assumed: &Assumed, said: &str) {
    let nodes = &assumed.scenario.cluster.nodes;
    for (node, ip) in nodes.iter().flat_map(|node| node.addresses().map(move |ip| (node, ip))) {
        let has = |other: &&svclab_rules::cluster::Node| other.pod_cidrs.iter().any(|range| range.contains(&ip));
        assert!(!nodes.iter().any(|other| has(&other)), "{ip} of {}\n{said}", node.name);
    }
}

/// A machine with an address near those of pods, as in networks that give pods addresses of their nodes' range.
#[test]
fn a_machine_is_not_among_the_pods_of_another() {
    let service = |name: &str, hash: &str, ip: &str, (endpoint, port): (&str, u16), to: &str| {
        format!(
            "-A KUBE-SERVICES -d {ip}/32 -p tcp -m comment --comment \"{name} cluster IP\" -m tcp --dport 443 -j KUBE-SVC-{hash}\n\
             -A KUBE-SVC-{hash} -m comment --comment \"{name} -> {to}:{port}\" -j KUBE-SEP-{endpoint}\n\
             -A KUBE-SEP-{endpoint} -s {to}/32 -m comment --comment \"{name}\" -j KUBE-MARK-MASQ\n\
             -A KUBE-SEP-{endpoint} -p tcp -m comment --comment \"{name}\" -m tcp -j DNAT --to-destination {to}:{port}\n"
        )
    };
    let api =
        service("default/kubernetes:https", "NPX46M4PTMTKRN6Y", "172.20.0.1", ("AAAAAAAAAAAAAAAA", 6443), "10.0.1.5");
    let web = service("default/web:http", "CDGGSHYLG3RE2FKL", "172.20.0.9", ("BBBBBBBBBBBBBBBB", 8080), "10.0.1.130");
    let assumed = imported(&(api + &web));
    let said = assumptions(&assumed).join("\n");
    assert_addresses_apart(&assumed, &said);
    let has_pod = |pod: &svclab_rules::cluster::Pod| pod.ips.contains(&"10.0.1.130".parse().expect("an address"));
    assert!(assumed.scenario.cluster.pods.iter().any(has_pod), "{said}");
}

const HEADING: &str =
    "NAME                    TYPE           CLUSTER-IP      EXTERNAL-IP        PORT(S)                  AGE\n";

/// A row that a terminal or an editor wrapped is one row.
#[rstest]
#[case::ports(
    "service/kube-dns        ClusterIP      10.43.0.10      <none>\n                            53/UDP,53/TCP,9153/TCP       33h\n"
)]
#[case::age("kube-dns        ClusterIP      10.43.0.10      <none>     53/UDP,53/TCP,9153/TCP\n            33h\n")]
#[case::three(
    "kube-dns        ClusterIP\n       10.43.0.10      <none>\n                 53/UDP,53/TCP,9153/TCP   33h\n"
)]
fn wrapped_rows_of_a_table_are_joined(#[case] row: &str) {
    let other =
        "web                     ClusterIP      10.43.0.11      <none>             80/TCP                   33h\n";
    let assumed = imported(&format!("{HEADING}{row}{other}"));
    assert_eq!(ports(&assumed, "kube-dns").0, [53, 53, 9153], "{:?}", assumptions(&assumed));
    assert_eq!(ports(&assumed, "web").0, [80]);
}

/// One Service that cannot be read does not stop the import of the others: it is named.
#[test]
fn a_service_that_the_api_rejects_is_left_out() {
    let broken =
        "broken                  ClusterIP      10.43.0.12      <none>             ???                      33h\n";
    let good =
        "web                     ClusterIP      10.43.0.11      <none>             80/TCP                   33h\n";
    let assumed = imported(&format!("{HEADING}{broken}{good}"));
    let said = assumptions(&assumed);
    assert!(said[0].contains("service default/broken") && said[0].contains("left out"), "{said:?}");
    assert_eq!((ports(&assumed, "web").0, ports(&assumed, "broken").0), (vec![80], Vec::new()));
    let error = infer::from_evidence(
        &evidence::read(&format!("{HEADING}{broken}")),
        Path::new("dump"),
        &[],
        Connections::LeftOut,
    );
    assert!(error.expect_err("no Service").to_string().contains("service default/broken: "));
}

/// Releases that write other comments do not write the same rules: `-> IP:PORT` came with 1.24.
#[rstest]
#[case::endpoint("default/web:http -> 10.244.1.10:8080", "kube-proxy 1.24 to ")]
#[case::service("default/web:http", "to 1.23, which generates the same rules")]
#[case::edited("default/web:http ...", "to 1.37, which generates the same rules")]
fn comments_tell_releases_apart(#[case] comment: &str, #[case] expected: &str) {
    let text = format!(
        "-A KUBE-SVC-CDGGSHYLG3RE2FKL -m comment --comment \"{comment}\" -j KUBE-SEP-GWQABTP5GBYXHJY5\n\
         -A KUBE-SEP-GWQABTP5GBYXHJY5 -s 10.244.1.10/32 -m comment --comment \"default/web:http\" -j KUBE-MARK-MASQ\n\
         -A KUBE-SEP-GWQABTP5GBYXHJY5 -p tcp -m comment --comment \"default/web:http\" -m tcp -j DNAT --to-destination 10.244.1.10:8080\n"
    );
    let said = assumptions(&imported(&text)).join("\n");
    assert!(said.contains(expected), "{said}");
}

/// A map of nftables that drops connections to an address does not say which kind of address it is, and so which policy is Local.
#[rstest]
#[case::external("LoadBalancer   10.96.0.11   10.88.1.2     80:30080/TCP", [false, true])]
#[case::cluster_ip("ClusterIP      10.88.1.2    <none>        80/TCP", [true, false])]
fn objects_say_whose_policy_drops_connections(#[case] row: &str, #[case] expected: [bool; 2]) {
    let assumed = imported(&format!(
        "# nft list map ip kube-proxy no-endpoint-services\ntable ip kube-proxy {{\n\tmap no-endpoint-services {{\n\
         \t\ttype ipv4_addr . inet_proto . inet_service : verdict\n\
         \t\telements = {{ 10.88.1.2 . tcp . 80 comment \"default/lb\" : drop }}\n\t}}\n}}\n\n\
         $ kubectl get svc\nNAME   TYPE           CLUSTER-IP   EXTERNAL-IP   PORT(S)        AGE\nlb     {row}   21m\n"
    ));
    let [service] = assumed.scenario.cluster.services.as_slice() else { panic!("one Service") };
    let is_internal_local = service.internal_traffic_policy == InternalTrafficPolicy::Local;
    let is_external_local = service.external_traffic_policy == ExternalTrafficPolicy::Local;
    assert_eq!([is_internal_local, is_external_local], expected);
}

/// Of two ports that a description and rules name for the same endpoints, the description's counts.
#[test]
fn endpoints_have_the_port_of_a_cut_description() {
    let assumed = imported(
        "$ kubectl describe svc web\nName:              web\nNamespace:         default\nType:              ClusterIP\n\
         IP:                10.96.0.10\nPort:              <unset>  80/TCP\nTargetPort:        8080/TCP\n\
         Endpoints:         10.244.0.2:8080,10.244.1.2:8080,10.244.1.3:8080 + 2 more...\n\n\
         $ iptables-save | grep default/web\n\
         -A KUBE-SEP-MQ4W7Q2CV67URU6Q -p tcp -m comment --comment \"default/web\" -m tcp -j DNAT --to-destination 10.244.1.2:80\n\
         -A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"default/web cluster IP\" -m tcp --dport 80 -j KUBE-SVC-LOLE4ISW44XBNF3G\n\
         -A KUBE-SVC-LOLE4ISW44XBNF3G -m comment --comment \"default/web -> 10.244.1.2:80\" -j KUBE-SEP-MQ4W7Q2CV67URU6Q\n",
    );
    assert_eq!(ports(&assumed, "web"), (vec![80], vec![8080]));
}

/// Endpoints that are made up are near those that are shown: no range of pods holds 10.244.0.0/16 and 172.20.0.0/16 without that of Services.
#[test]
fn made_up_endpoints_are_near_those_that_are_shown() {
    let assumed = imported(
        "-A KUBE-SVC-HVYO5BWEF5HC7MD7 -m comment --comment \"oqton-backoffice/sonatype-nexus:\" -j KUBE-SEP-ESZGVIJJ5GN2KKUX\n\
         -A KUBE-SEP-QGNNICTBV4CXTTZM -p tcp -m comment --comment \"kube-system/nginx-ingress-lb:https\" -m tcp -j DNAT --to-destination 172.20.2.3:443\n",
    );
    let pods = assumed.scenario.cluster.nodes.iter().flat_map(|node| &node.pod_cidrs);
    assert!(pods.clone().count() > 0 && pods.into_iter().all(|range| range.to_string().starts_with("172.20.")));
}

/// A manifest that names no `targetPort` means the Service's own port, whatever port rules translate to; a table says nothing.
#[rstest]
#[case::manifest(
    "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  clusterIP: 10.96.0.10\n  ports:\n    - {name: http, port: 80}\n",
    None
)]
#[case::table(
    "NAME  TYPE       CLUSTER-IP   EXTERNAL-IP  PORT(S)  AGE\nweb   ClusterIP  10.96.0.10   <none>       80/TCP   3d\n",
    Some("8080")
)]
fn an_omitted_target_port_is_that_of_the_service(#[case] object: &str, #[case] expected: Option<&str>) {
    let rules =
        std::fs::read_to_string("../rules/tests/golden/clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
    let assumed = imported(&format!("```\n{}```\n\n```\n{object}```\n", rules.expect("a recording")));
    let [service] = assumed.scenario.cluster.services.as_slice() else { panic!("one Service") };
    let target = service.ports[0].target_port.as_ref().map(ToString::to_string);
    assert_eq!(target.as_deref(), expected);
}

/// Table nat has no rule for a Service without endpoints, and its REJECT is in another table: such a Service is not promised to be rejected.
#[test]
fn nothing_is_promised_for_a_service_whose_endpoints_nothing_shows() {
    let rules =
        std::fs::read_to_string("../rules/tests/golden/clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
    let rules = rules.expect("a recording");
    let nat = &rules[rules.find("*nat").expect("table nat")..];
    let objects = "NAME        TYPE        CLUSTER-IP    EXTERNAL-IP   PORT(S)   AGE\n\
        kubernetes  ClusterIP   10.96.0.1     <none>        443/TCP   3d\nweb         ClusterIP   10.96.0.10    <none>        80/TCP    3d\n";
    let endpoints = "NAME         ENDPOINTS   AGE\nkubernetes   <none>      3d\n";
    let services = |text: &str| {
        let assumed = imported(text);
        let names = assumed.scenario.cluster.services.iter().map(|service| service.name.name.clone());
        (names.collect::<Vec<_>>().join(" "), assumptions(&assumed).join("\n"))
    };
    let (names, said) = services(&format!("{nat}\n{objects}"));
    let expected = "left out, because nothing shows whether they have endpoints: default/kubernetes";
    assert!(names == "web" && said.contains(expected), "{names} {said}");
    let (names, said) = services(&format!("{nat}\n{objects}\n{endpoints}"));
    assert_eq!(names, "kubernetes web", "{said}");
}

/// A filter that shows one port of a Service hides the others: whether they have endpoints is unknown, unless a list shows them.
#[rstest]
#[case::hidden("", &[53], "whether they have endpoints: kube-system/kube-dns:9153/tcp")]
#[case::listed("$ kubectl get ep -n kube-system\nNAME       ENDPOINTS                                         AGE\nkube-dns   10.244.1.2:53,10.244.1.2:53,10.244.1.2:9153   3d\n", &[53, 9153], "")]
fn ports_that_a_filter_hides_are_left_out(#[case] endpoints: &str, #[case] expected: &[u16], #[case] words: &str) {
    let rules = "$ iptables-save | grep kube-dns:dns
-A KUBE-SEP-Z6M7ZHWCTBNMPLD7 -s 10.244.1.2/32 -m comment --comment \"kube-system/kube-dns:dns\" -j KUBE-MARK-MASQ
-A KUBE-SEP-Z6M7ZHWCTBNMPLD7 -p udp -m comment --comment \"kube-system/kube-dns:dns\" -m udp -j DNAT --to-destination 10.244.1.2:53
-A KUBE-SERVICES -d 10.96.0.10/32 -p udp -m comment --comment \"kube-system/kube-dns:dns cluster IP\" -m udp --dport 53 -j KUBE-SVC-TCOU7JCQXEZGVUNU
-A KUBE-SVC-TCOU7JCQXEZGVUNU ! -s 10.244.0.0/16 -d 10.96.0.10/32 -p udp -m comment --comment \"kube-system/kube-dns:dns cluster IP\" -m udp --dport 53 -j KUBE-MARK-MASQ
-A KUBE-SVC-TCOU7JCQXEZGVUNU -m comment --comment \"kube-system/kube-dns:dns -> 10.244.1.2:53\" -j KUBE-SEP-Z6M7ZHWCTBNMPLD7
";
    let service = "$ kubectl get svc -n kube-system\nNAME       TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)           AGE\n\
        kube-dns   ClusterIP   10.96.0.10   <none>        53/UDP,9153/TCP   3d\n";
    let assumed = imported(&format!("{service}{endpoints}{rules}"));
    let said = assumptions(&assumed).join("\n");
    assert_eq!(ports(&assumed, "kube-dns").0, expected, "{said}");
    assert!(said.contains(words), "{said}");
}
