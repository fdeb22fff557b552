use serde_json::json;
use svclab_rules::cluster::objects::NODE_PORTS;

use super::*;

fn stored(objects: Value) -> Vec<Value> {
    let Value::Array(objects) = objects else { panic!("a list of objects") };
    let contents = admit(objects, &NODE_PORTS).unwrap_or_else(|rejections| panic!("{rejections:?}"));
    let whole = |content: &Content| {
        let (metadata, mut object) = content.parsed();
        object.insert("kind".to_owned(), RESOURCES[content.index].kind.into());
        object.insert("metadata".to_owned(), metadata.into());
        Value::Object(object)
    };
    contents.iter().map(whole).collect()
}

fn objects_of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

fn service(name: &str, spec: Value) -> Value {
    json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec})
}

#[test]
fn a_service_gets_the_defaults_of_the_api() {
    let spec = json!({"clusterIP": "10.96.0.10", "ports": [{"port": 80}], "sessionAffinity": "ClientIP"});
    let objects = stored(json!([service("web", spec)]));
    assert_eq!(
        objects_of_kind(&objects, "Service")[0]["spec"],
        json!({
            "type": "ClusterIP", "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        })
    );
    assert_eq!(objects_of_kind(&objects, "Service")[0]["status"], json!({"loadBalancer": {}}));
    let namespaces: Vec<&Value> =
        objects_of_kind(&objects, "Namespace").iter().map(|object| &object["metadata"]["name"]).collect();
    assert_eq!(namespaces, ["default", "kube-node-lease", "kube-public", "kube-system"]);
}

#[test]
fn both_families_of_a_service_are_required() {
    let spec = json!({"clusterIPs": ["fd00::10", "10.96.0.10"], "ports": [{"port": 80}]});
    let spec = objects_of_kind(&stored(json!([service("web", spec)])), "Service")[0]["spec"].clone();
    assert_eq!(spec["clusterIP"], "fd00::10");
    assert_eq!((&spec["ipFamilies"], &spec["ipFamilyPolicy"]), (&json!(["IPv6", "IPv4"]), &json!("RequireDualStack")));
}

#[test]
fn invalid_objects_are_rejected_with_the_fields_that_are_wrong() {
    let bad =
        service("web", json!({"type": "NodePort", "clusterIP": "10.96.0.10", "ports": [{"port": 80, "nodePort": 80}]}));
    let twin = service("twin", json!({"clusterIP": "10.96.0.11", "ports": [{"port": 80}]}));
    let other = service("other", json!({"clusterIP": "10.96.0.11", "ports": [{"port": 80}]}));
    let untyped = service("untyped", json!({"ports": "none"}));
    let rejections = admit(vec![bad, twin, other, untyped], &NODE_PORTS).unwrap_err();
    let messages: Vec<String> = rejections.iter().map(ToString::to_string).collect();
    let expected = [
        "Service \"web\" is invalid: spec.ports[0].nodePort: Invalid value: 80: node port 80 is not in the range 30000-32767",
        "Service in version \"v1\" cannot be handled as a Service: spec.ports: invalid type: string \"none\", expected a sequence",
        "Service \"other\" is invalid: spec.clusterIPs[0]: Invalid value: \"10.96.0.11\": 10.96.0.11 is already used by service default/twin",
    ];
    assert_eq!(messages, expected);
    let causes = rejections[0].status().details.as_ref().unwrap().causes.as_ref().unwrap();
    let cause = &causes[0];
    assert_eq!(
        (cause.field.as_deref(), cause.reason.as_deref()),
        (Some("spec.ports[0].nodePort"), Some("FieldValueInvalid"))
    );
}

fn slice(name: &str, endpoints: Value) -> Value {
    json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"port": 80}], "endpoints": endpoints,
    })
}

#[test]
fn endpoints_are_derived_from_slices() {
    let first = json!([
        {"addresses": ["10.0.0.2"], "nodeName": "a"},
        {"addresses": ["10.0.0.1"], "conditions": {"ready": false}},
    ]);
    let second = json!([
        {"addresses": ["10.0.0.3"], "conditions": {"ready": false, "terminating": true}},
        {"addresses": ["10.0.0.2"], "nodeName": "a"},
    ]);
    let objects = stored(json!([slice("web-1", first), slice("web-2", second)]));
    assert_eq!(
        objects_of_kind(&objects, "Endpoints")[0]["subsets"],
        json!([{
            "addresses": [{"ip": "10.0.0.2", "nodeName": "a"}],
            "notReadyAddresses": [{"ip": "10.0.0.1"}],
            "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
        }])
    );
}

#[test]
fn pod_cidr_is_copied_to_pod_cidrs() {
    let node =
        json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"podCIDR": "10.244.0.0/24"}});
    let spec = json!({"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24"]});
    assert_eq!(objects_of_kind(&stored(json!([node])), "Node")[0]["spec"], spec);
}

#[test]
fn kinds_that_are_not_served_are_left_out() {
    let deployment = json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web"}});
    assert!(objects_of_kind(&stored(json!([deployment])), "Deployment").is_empty());
}
