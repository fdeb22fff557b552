//! Kubernetes objects: tables, descriptions, YAML and JSON.

use rstest::rstest;
use serde_json::Value;

use super::super::*;
use super::{codes, unaccounted};

#[rstest]
#[case::services(
    "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE\nkubernetes ClusterIP 10.123.63.1 <none> 443/TCP 3h\nsleep LoadBalancer 10.123.63.85 118.24.224.100 80:30392/TCP 6m\n",
    "kubectl-get",
    2
)]
#[case::pods(
    "NAME     READY   STATUS    RESTARTS      AGE     IP           NODE\nclient   1/1     Running   0             7m44s   10.244.1.3   w1\nnginx    1/1     Running   2 (3h ago)    25h     10.244.2.2   w2\n",
    "kubectl-get",
    2
)]
#[case::rows(
    "FOO-7g26h               1/1     Running   2          3d13h   100.96.0.2    worker1.cluster.com     <none>      <none>\n",
    "kubectl-get",
    1
)]
#[case::endpoints(
    "NAME      ENDPOINTS                                    AGE\ntraefik   10.42.2.245:80,10.42.2.245:8087 + 1 more...  27h\n",
    "kubectl-get",
    1
)]
#[case::no_endpoints("NAME       ENDPOINTS   AGE\npayments   <none>      40d\n", "kubectl-get", 1)]
#[case::external_name(
    "NAME   TYPE           CLUSTER-IP   EXTERNAL-IP      PORT(S)   AGE\npg     ExternalName   <none>       db.example.com   <none>    40d\n",
    "kubectl-get",
    1
)]
#[case::described(
    "Name:              web\nNamespace:         default\nLabels:            <none>\nType:              ClusterIP\nIP:                10.0.0.1\nPort:              <unset>  80/TCP\nEndpoints:         10.1.0.1:80,10.1.0.2:80\nSession Affinity:  None\nEvents:            <none>\n",
    "kubectl-describe",
    1
)]
#[case::yaml(
    "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n  - apiVersion: v1\n    kind: Service\n    metadata:\n      name: a\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: b}\n",
    "yaml",
    2
)]
#[case::json(
    "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"Service\",\n  \"metadata\": {\"name\": \"a\"}\n}\n",
    "json",
    1
)]
#[case::slice(
    "addressType: IPv4\napiVersion: discovery.k8s.io/v1\nendpoints:\n- addresses:\n  - 10.244.1.2\nkind: EndpointSlice\nmetadata:\n  name: web-1\n",
    "yaml",
    1
)]
fn objects_are_read(#[case] text: &str, #[case] format: &str, #[case] objects: usize) {
    let evidence = read(text);
    assert_eq!(evidence.unread, []);
    assert_eq!((codes(&evidence), evidence.objects()), (vec![format], objects), "{:#?}", evidence.pieces);
    assert_eq!(unaccounted(text, &evidence), Vec::<usize>::new());
}

#[rstest]
#[case::yaml(
    "kind: Node\nspec:\n  podCIDR: 10.1.0.0/24\napiVersion: v1\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: b}\nspec: p\n",
    7
)]
#[case::json(
    "{\n\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [{\"kind\": \"Node\", \"metadata\": {\"name\": \"a\"}},\n{\"kind\": \"Node\", \"metadata\": {\"name\": \"b\"}, \"spec\": \"p\"}]}\n",
    1
)]
fn an_object_of_another_shape_is_unread(#[case] text: &str, #[case] line: usize) {
    let evidence = read(text);
    let unread: Vec<_> = evidence.unread.iter().map(|unread| (unread.line, unread.reason.as_str())).collect();
    assert_eq!(unread, [(line, "`spec` of the Node \"b\" is a string, not a map")]);
    assert_eq!(evidence.objects(), 1);
}

/// A description after what a terminal, a log or a mail puts before its lines is read.
#[rstest]
#[case::quote("> ")]
#[case::journald("Jun 14 12:00:00 node-1 kube-proxy[123]: ")]
#[case::pod("[pod/kube-proxy-x2z9v/kube-proxy] ")]
fn descriptions_after_prefixes_are_read(#[case] prefix: &str) {
    let text = "Name:              web\nNamespace:         shop\nLabels:            <none>\nType:              ClusterIP\nIP:                10.96.0.80\nPort:              http  80/TCP\nSession Affinity:  None\n";
    let evidence = read(&text.lines().map(|line| format!("{prefix}{line}\n")).collect::<String>());
    assert_eq!((codes(&evidence), evidence.objects()), (vec!["kubectl-describe"], 1), "{:#?}", evidence.pieces);
}

const SLICE: &str = "Name:         web-x2z9v
Namespace:    shop
Labels:       endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io
              kubernetes.io/service-name=web
Annotations:  <none>
AddressType:  IPv4
Ports:
  Name     Port  Protocol
  ----     ----  --------
  http     8080  TCP
Endpoints:
  - Addresses:  10.244.1.5
    Conditions:
      Ready:    true
    Hostname:   <unset>
    TargetRef:  Pod/web-7d9f8-abcde
    NodeName:   worker
    Zone:       <unset>
  - Addresses:  10.244.2.6
    Conditions:
      Ready:    false
    NodeName:   worker2
Events:         <none>
";

const ENDPOINTS: &str = "Name:         web
Namespace:    shop
Labels:       <none>
Annotations:  endpoints.kubernetes.io/last-change-trigger-time: 2024-06-14T12:00:00Z
Subsets:
  Addresses:          10.244.1.5,10.244.1.6
  NotReadyAddresses:  10.244.2.6
  Ports:
    Name     Port  Protocol
    ----     ----  --------
    <unset>  8080  TCP

Events:  <none>
";

fn objects_of(text: &str) -> Vec<Value> {
    let pieces = read(text).pieces.into_iter();
    let objects = pieces.filter_map(|piece| if let Contents::Objects(all) = piece.contents { Some(all) } else { None });
    objects.flatten().collect()
}

/// Endpoints are those of the description, and of one without its head as far as something in it says what it describes.
#[test]
fn descriptions_of_endpoints_are_read() {
    let slice = &objects_of(SLICE)[0];
    assert_eq!((&slice["metadata"]["name"], &slice["addressType"]), (&"web-x2z9v".into(), &"IPv4".into()));
    assert_eq!(slice["ports"], serde_json::json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
    assert_eq!(slice["endpoints"][0]["addresses"][0], "10.244.1.5");
    assert_eq!(
        (&slice["endpoints"][0]["nodeName"], &slice["endpoints"][1]["conditions"]["ready"]),
        (&"worker".into(), &false.into())
    );
    let subset = &objects_of(ENDPOINTS)[0]["subsets"][0];
    assert_eq!(
        (&subset["addresses"][1]["ip"], &subset["notReadyAddresses"][0]["ip"]),
        (&"10.244.1.6".into(), &"10.244.2.6".into())
    );
    assert_eq!(subset["ports"], serde_json::json!([{"port": 8080, "protocol": "TCP"}]));
}

#[rstest]
#[case::label(SLICE, 2, Some("web-slice"))]
#[case::nothing(SLICE, 5, None)]
#[case::command(&format!("$ kubectl describe ep web -n shop | tail\n{ENDPOINTS}"), 4, Some("web"))]
fn a_description_without_its_head_is_read_or_listed(
    #[case] text: &str,
    #[case] cut: usize,
    #[case] name: Option<&str>,
) {
    let is_cut = |(at, line): &(usize, &str)| line.starts_with('$') || *at >= cut;
    let text: String = text.lines().enumerate().filter(is_cut).map(|(_, line)| format!("{line}\n")).collect();
    let evidence = read(&text);
    let found: Vec<String> =
        objects_of(&text).iter().map(|own| own["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!((codes(&evidence), found), (vec!["kubectl-describe"], name.map(str::to_owned).into_iter().collect()));
    assert_eq!((evidence.unread.is_empty(), unaccounted(&text, &evidence)), (name.is_some(), Vec::new()));
}

/// A description of a Service has fields that a table lacks, and lists the endpoints of each port.
#[test]
fn a_description_of_a_service_has_its_endpoints() {
    let text = "Name:                     shop\nNamespace:                acme\nSelector:                 app=shop\n\
        Type:                     LoadBalancer\nIP:                       10.96.55.20\n\
        LoadBalancer Ingress:     203.0.113.77 (VIP)\nPort:                     http  80/TCP\nTargetPort:               8080/TCP\n\
        Endpoints:                10.244.1.15:8080,10.244.2.22:8080\nPort:                     dns  53/UDP\n\
        TargetPort:               53/UDP\nEndpoints:                10.244.1.15:53\nSession Affinity:         None\n\
        HealthCheck NodePort:     32011\n\n\
        NAMESPACE   NAME   ENDPOINTS                     AGE\nacme        shop   10.244.1.15:8080 + 2 more...  40d\n";
    let all = objects(&read(text));
    let of_kind = |kind: &str| all.iter().find(|one| one["kind"] == kind).unwrap().clone();
    let (service, endpoints) = (of_kind("Service"), of_kind("Endpoints"));
    assert_eq!(all.len(), 2);
    assert_eq!((service["spec"]["healthCheckNodePort"].as_u64(), service["served"].is_null()), (Some(32011), true));
    assert_eq!(service["status"]["loadBalancer"]["ingress"][0]["ip"], "203.0.113.77");
    assert_eq!(endpoints["metadata"]["namespace"], "acme");
    assert_eq!(endpoints["subsets"][0]["addresses"][1]["ip"], "10.244.2.22");
    assert_eq!(endpoints["subsets"][1]["ports"][0]["protocol"], "UDP");
}

/// The source of a web page has entities in values of YAML and in tables, too.
#[rstest]
#[case::yaml(
    "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  ports:\n  - name: &quot;&quot;\n    port: 80\n",
    "/spec/ports/0/name",
    ""
)]
#[case::number("apiVersion: v1\nkind: Service\nmetadata:\n  name: &#34;web&#34;\n", "/metadata/name", "web")]
#[case::table(
    "NAME   TYPE        CLUSTER-IP   EXTERNAL-IP    PORT(S)   AGE\nweb    ClusterIP   10.96.0.9    &lt;none&gt;   80/TCP    4d\n",
    "/spec/clusterIP",
    "10.96.0.9"
)]
#[case::description(
    "Name:              web\nNamespace:         default\nType:              ClusterIP\nIP:                10.96.0.9\nPort:              &lt;unset&gt;  80/TCP\nTargetPort:        8080/TCP\n",
    "/spec/clusterIP",
    "10.96.0.9"
)]
fn entities_in_objects_are_decoded(#[case] text: &str, #[case] place: &str, #[case] expected: &str) {
    let evidence = read(text);
    let [object] = &*objects(&evidence) else { panic!("{evidence:?}") };
    assert_eq!(object.pointer(place).and_then(Value::as_str), Some(expected), "{object}");
    assert!(object["spec"]["externalIPs"].is_null() && !object.to_string().contains('&'), "{object}");
}

/// Of releases up to 1.24: the node of an endpoint is in its topology.
#[test]
fn a_slice_of_the_beta_version_is_read_as_the_stored_one() {
    let evidence = read(
        "apiVersion: discovery.k8s.io/v1beta1\nkind: EndpointSlice\nmetadata: {name: web-1}\naddressType: IPv4\nendpoints:\n\
         - addresses: [10.244.1.2]\n  topology: {kubernetes.io/hostname: worker}\n",
    );
    let Contents::Objects(objects) = &evidence.pieces[0].contents else { panic!("{evidence:?}") };
    assert_eq!(
        (&objects[0]["apiVersion"], &objects[0]["endpoints"][0]["nodeName"]),
        (&"discovery.k8s.io/v1".into(), &"worker".into())
    );
}
