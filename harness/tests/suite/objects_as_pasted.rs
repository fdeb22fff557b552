//! Objects as people paste them: descriptions with all their parts, manifests next to tables of the same Services, and rows without a heading.

use std::path::Path;

use rstest::rstest;
use svclab::evidence;
use svclab::infer::{self, Assumed, Connections};

use crate::assumptions;

fn imported(text: &str) -> Assumed {
    infer::from_evidence(&evidence::read(text), Path::new("dump"), &[], Connections::LeftOut)
        .unwrap_or_else(|errors| panic!("{errors}"))
}

fn named<T: ToString>(all: impl IntoIterator<Item = T>) -> Vec<String> {
    all.into_iter().map(|one| one.to_string()).collect()
}

/// A volume has a `Type:`, and a description of a pod an address, but neither makes it a Service.
#[rstest]
#[case::indented("    ")]
#[case::without_indentation("")]
fn a_description_of_a_pod_with_a_volume(#[case] indentation: &str) {
    let text = format!(
        "$ kubectl describe pod web-1\nName:             web-1\nNamespace:        default\nPriority:         0\n\
         Node:             worker/172.18.0.3\nStatus:           Running\nIP:               10.244.1.7\nIPs:\n  IP:           10.244.1.7\n\
         Containers:\n  web:\n    Port:           80/TCP\nVolumes:\n  kube-api-access-9wz2x:\n\
         {indentation}Type:                    Projected (a volume that contains injected data from multiple sources)\n\
         QoS Class:                   BestEffort\n\n\
         $ kubectl get services\nNAME    TYPE        CLUSTER-IP     EXTERNAL-IP   PORT(S)   AGE\nweb     ClusterIP   10.96.240.1    <none>        80/TCP    2h\n"
    );
    let cluster = imported(&text).scenario.cluster;
    assert_eq!(named(cluster.services.iter().map(|service| &service.name)), ["default/web"]);
    let pod = cluster.pods.iter().find(|pod| &*pod.name.name == "web-1").expect("the pod");
    assert_eq!((&*pod.node, named(&pod.ips)), ("worker", vec!["10.244.1.7".to_owned()]));
}

const MANIFEST: &str = "
```yaml
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  type: NodePort
  ports:
    - port: 80
      targetPort: 8080
  selector:
    app: web
```
";

/// What the API server has allocated is in a table or a description of the same Service.
#[rstest]
#[case::table(
    "$ kubectl get svc\nNAME   TYPE       CLUSTER-IP     EXTERNAL-IP   PORT(S)        AGE\nweb    NodePort   10.43.112.32   <none>        80:32136/TCP   59s\n"
)]
#[case::description(
    "$ kubectl describe svc web\nName:                     web\nNamespace:                default\nSelector:                 app=web\nType:                     NodePort\nIP:                       10.43.112.32\nPort:                     <unset>  80/TCP\nTargetPort:               80/TCP\nNodePort:                 <unset>  32136/TCP\nEndpoints:                10.42.0.5:8080\nSession Affinity:         None\n"
)]
fn a_manifest_has_what_was_allocated(#[case] shown: &str) {
    for text in [format!("{shown}{MANIFEST}"), format!("{MANIFEST}\n{shown}")] {
        let assumed = imported(&text);
        let said = assumptions(&assumed).join("\n");
        let [service] = &*assumed.scenario.cluster.services else { panic!("{said}") };
        assert_eq!(named(&service.cluster_ips), ["10.43.112.32"], "{said}");
        let ports: Vec<_> = service.ports.iter().map(|port| (port.port, port.node_port, port.name.clone())).collect();
        assert_eq!(ports, [(80, Some(32136), Default::default())], "{said}");
        assert!(!said.contains("as the API server allocates"), "{said}");
    }
}

/// A manifest of another type keeps its own: no node port, and no address of an ExternalName.
#[rstest]
#[case::cluster_ip("  type: ClusterIP\n", &["10.43.112.32"])]
#[case::external_name("  type: ExternalName\n  externalName: example.com\n", &[])]
fn a_manifest_of_another_type(#[case] kind: &str, #[case] expected: &[&str]) {
    let table = "$ kubectl get svc\nNAME   TYPE       CLUSTER-IP     EXTERNAL-IP   PORT(S)        AGE\nweb    NodePort   10.43.112.32   <none>        80:32136/TCP   59s\n";
    let assumed = imported(&format!("{table}{}", MANIFEST.replace("  type: NodePort\n", kind)));
    let [service] = &*assumed.scenario.cluster.services else { panic!("{:?}", assumptions(&assumed)) };
    assert_eq!(named(&service.cluster_ips), expected);
    assert!(service.ports.iter().all(|port| port.node_port.is_none()));
}

/// The API server is a machine, wherever its address is, and does not decide where pods are.
#[rstest]
#[case("192.168.76.142:6443", "10.100.2.27")]
#[case("172.31.17.67:6443", "10.46.0.1")]
#[case("146.148.26.51:443", "10.16.0.7")]
fn the_api_server_is_no_pod(#[case] server: &str, #[case] pod: &str) {
    let assumed = imported(&format!(
        "$ kubectl get svc\nNAME         TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nkubernetes   ClusterIP   10.96.0.1    <none>        443/TCP   1h\n\
         web          ClusterIP   10.96.12.1   <none>        80/TCP    1h\n$ kubectl get ep\nNAME         ENDPOINTS   AGE\nkubernetes   {server}   1h\nweb          {pod}:80   1h\n"
    ));
    let said = assumptions(&assumed).join("\n");
    let pods = assumed.scenario.cluster.pods.iter().filter(|pod| !pod.name.name.starts_with("client-of-"));
    assert_eq!(named(pods.flat_map(|pod| &pod.ips)), [pod], "{said}");
    assert!(!said.contains(&format!("{pod} outside")) && !said.contains("host at-10-"), "{said}");
}

/// `grep` and `--no-headers` leave out the heading.
#[rstest]
#[case::grep("$ kubectl get ep | grep web\nweb      192.168.16.171:80   3m33s\n")]
#[case::no_headers("$ kubectl get endpoints web --no-headers\nweb      192.168.16.171:80   3m33s\n")]
#[case::all_namespaces("$ kubectl get ep -A | grep web\ndefault   web      192.168.16.171:80   97d\n")]
fn rows_of_endpoints_without_a_heading(#[case] rows: &str) {
    let table = "$ kubectl get svc\nNAME   TYPE        CLUSTER-IP     EXTERNAL-IP   PORT(S)   AGE\nweb    ClusterIP   10.96.112.32   <none>        80/TCP    59s\n";
    let slices = imported(&format!("{table}{rows}")).scenario.cluster.slices;
    let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
    assert_eq!(named(endpoints.flat_map(|endpoint| &endpoint.addresses)), ["192.168.16.171"]);
}

/// kubectl cuts the annotation that `kubectl apply` writes.
#[test]
fn a_description_goes_on_after_an_annotation() {
    let text = "$ kubectl describe services web\nName:              web\nNamespace:         default\nLabels:            app=web\n\
        Annotations:       kubectl.kubernetes.io/last-applied-configuration:\n                     {\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"annotations\":{},\"name\":\"web\",\"namespace\":\"default\"},\"s...\n\
        Selector:          app=web\nType:              ClusterIP\nIP:                10.110.54.40\nPort:              http  80/TCP\nTargetPort:        80/TCP\n\
        Endpoints:         10.244.1.7:80\nSession Affinity:  None\n";
    let evidence = evidence::read(text);
    assert_eq!(evidence.pieces.len(), 1, "{:#?}", evidence.pieces);
    let cluster = imported(text).scenario.cluster;
    assert_eq!(named(&cluster.services[0].cluster_ips), ["10.110.54.40"]);
}

/// Kube-proxies in one text with two ranges of pods have each their own, as those that know the range of their node.
#[test]
fn ranges_of_two_nodes_are_not_joined() {
    let rules = |range: &str, ip: &str, name: &str| {
        format!(
            "[root@{name} ~]# iptables -t nat -nL\nChain KUBE-SERVICES (2 references)\ntarget     prot opt source               destination         \n\
             KUBE-MARK-MASQ  tcp  -- !{range}        {ip}            /* default/{name}:http cluster IP */ tcp dpt:8080\n"
        )
    };
    let text = format!(
        "```\n{}```\n```\n{}```\n",
        rules("10.244.16.0/24", "10.96.5.1", "one"),
        rules("172.16.0.0/16", "10.101.28.148", "two")
    );
    let assumed = imported(&text);
    let said = assumptions(&assumed).join("\n");
    let cluster = &assumed.scenario.cluster;
    let ranges = ["one", "two"].map(|node| named(&cluster.node(node).expect("a node").pod_cidrs));
    assert_eq!(ranges, [["10.244.16.0/24"], ["172.16.0.0/16"]], "{said}");
    assert!(cluster.proxy.cluster_cidrs.is_empty() && said.contains("detectLocalMode NodeCIDR"), "{said}");
    let found = svclab::lint::lint(&evidence::read(&text));
    let found: Vec<&str> = found.iter().map(|finding| finding.message.as_str()).collect();
    assert!(!found.iter().any(|message| message.contains("masquerading")), "{found:?}");
}

/// People replace an endpoint's address and leave the names of chains, which are hashes of the former.
#[test]
fn the_chain_of_an_endpoint_whose_address_was_replaced() {
    let rules = "$ iptables-save | grep kubernetes:https\n\
        -A KUBE-SVC-NPX46M4PTMTKRN6Y -m comment --comment default/kubernetes:https -j KUBE-SEP-SSNSCRUIRMZDLXKS\n\
        -A KUBE-SEP-SSNSCRUIRMZDLXKS -m comment --comment default/kubernetes:https -s 1.2.3.5/32 -j KUBE-MARK-MASQ\n\
        -A KUBE-SEP-SSNSCRUIRMZDLXKS -m comment --comment default/kubernetes:https -m tcp -p tcp -j DNAT --to-destination 1.2.3.5:8080\n";
    let said = assumptions(&imported(rules)).join("\n");
    assert!(said.contains("generates the same rules"), "{said}");
    let other = rules.replace("--to-destination 1.2.3.5", "--to-destination 1.2.3.9");
    let said = assumptions(&imported(&other)).join("\n");
    assert!(!said.contains("generates the same rules"), "{said}");
}
