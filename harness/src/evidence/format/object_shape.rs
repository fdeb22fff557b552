//! Whether an object has the shape that Kubernetes gives it: what reads objects later relies on maps and lists of maps.

use serde_json::Value;

use super::super::objects::KINDS;

/// The fields that are maps, or with `[]` lists of maps, of any kind of object that rules depend on.
const MAPS: [&str; 19] = [
    "metadata",
    "metadata.labels",
    "metadata.annotations",
    "spec",
    "spec.ports[]",
    "spec.sessionAffinityConfig",
    "spec.sessionAffinityConfig.clientIP",
    "status",
    "status.addresses[]",
    "status.podIPs[]",
    "status.loadBalancer",
    "status.loadBalancer.ingress[]",
    "endpoints[]",
    "endpoints[].conditions",
    "endpoints[].targetRef",
    "ports[]",
    "subsets[]",
    "subsets[].addresses[]",
    "subsets[].ports[]",
];

/// Returns why an object cannot be used: the first field that has another shape.
pub(super) fn misshapen(object: &Value) -> Option<String> {
    let kind = object["kind"].as_str().filter(|kind| KINDS.contains(kind))?;
    let (path, found) = MAPS.iter().find_map(|path| Some((path, other(object, path)?)))?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let wanted = if path.ends_with("[]") { "a list of maps" } else { "a map" };
    let path = path.trim_end_matches("[]");
    Some(format!("`{path}` of the {kind} {name:?} is {found}, not {wanted}"))
}

/// Returns what is found where a path leads to anything but maps. A field may be missing.
fn other(value: &Value, path: &str) -> Option<&'static str> {
    let (field, rest) = path.split_once('.').unwrap_or((path, ""));
    let next = |value: &Value| match value {
        Value::Null => None,
        Value::Object(_) if rest.is_empty() => None,
        Value::Object(_) => other(value, rest),
        _ => rest.is_empty().then(|| described(value)),
    };
    match field.strip_suffix("[]") {
        None => next(&value[field]),
        Some(list) => match &value[list] {
            Value::Array(items) => items.iter().find_map(next),
            Value::Null => None,
            unlike => rest.is_empty().then(|| described(unlike)),
        },
    }
}

fn described(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"kind": "Node", "spec": "p"}), "`spec` of the Node \"a\" is a string, not a map")]
    #[case(json!({"kind": "Service", "spec": {"ports": [80]}}), "`spec.ports` of the Service \"a\" is a number, not a list of maps")]
    #[case(json!({"kind": "Service", "spec": {"ports": {}}}), "`spec.ports` of the Service \"a\" is a map, not a list of maps")]
    #[case(json!({"kind": "EndpointSlice", "endpoints": [{"conditions": true}]}), "`endpoints[].conditions` of the EndpointSlice \"a\" is a boolean, not a map")]
    fn another_shape_is_named(#[case] mut object: Value, #[case] why: &str) {
        object["metadata"] = json!({"name": "a"});
        assert_eq!(misshapen(&object).as_deref(), Some(why));
    }

    #[test]
    fn what_is_missing_or_of_another_kind_is_no_other_shape() {
        assert_eq!(misshapen(&json!({"kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": null}})), None);
        assert_eq!(misshapen(&json!({"kind": "Widget", "spec": "p"})), None);
    }
}
