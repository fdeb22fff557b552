//! Conversion between the versions of an object: from the stored form to another one, and back.

use serde_json::{Map, Value};

use super::resource::Form;

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Fields of core events, and their names in `events.k8s.io`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Converts an EndpointSlice of `discovery.k8s.io/v1beta1` to the stored version; other objects stay as they are.
pub(crate) fn to_stored_slice(object: &mut Value) {
    if object["kind"] == "EndpointSlice"
        && object["apiVersion"] == "discovery.k8s.io/v1beta1"
        && let Some(fields) = object.as_object_mut()
    {
        Form::SliceTopology.decode(fields);
        fields.insert("apiVersion".to_owned(), "discovery.k8s.io/v1".into());
    }
}

impl Form {
    /// Converts an object from the stored form to this one.
    pub(super) fn encode(self, object: &mut Map<String, Value>) {
        match self {
            Self::Stored => {}
            Self::SliceTopology => endpoints(object).for_each(add_topology),
            Self::GroupEvent => EVENT_FIELDS.iter().for_each(|(core, group)| rename(object, core, group)),
        }
    }

    /// Converts an object from this form to the stored one.
    pub(super) fn decode(self, object: &mut Map<String, Value>) {
        match self {
            Self::Stored => {}
            Self::SliceTopology => endpoints(object).for_each(remove_topology),
            Self::GroupEvent => EVENT_FIELDS.iter().for_each(|(core, group)| rename(object, group, core)),
        }
    }
}

fn rename(object: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = object.remove(from) {
        object.insert(to.to_owned(), value);
    }
}

fn endpoints(object: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let listed = object.get_mut("endpoints").and_then(Value::as_array_mut).into_iter().flatten();
    listed.filter_map(Value::as_object_mut)
}

/// `Convert_discovery_Endpoint_To_v1beta1_Endpoint` of the API server's `pkg/apis/discovery/v1beta1/conversion.go`.
fn add_topology(endpoint: &mut Map<String, Value>) {
    let mut topology = match endpoint.remove("deprecatedTopology") {
        Some(Value::Object(topology)) => topology,
        _ => Map::new(),
    };
    if let Some(zone) = endpoint.remove("zone") {
        topology.insert(ZONE.to_owned(), zone);
    }
    if let Some(node) = endpoint.get("nodeName") {
        topology.insert(HOSTNAME.to_owned(), node.clone());
    }
    if !topology.is_empty() {
        endpoint.insert("topology".to_owned(), Value::Object(topology));
    }
}

/// `Convert_v1beta1_Endpoint_To_discovery_Endpoint`; 1.18 and 1.19 have no `nodeName` and use the host name.
fn remove_topology(endpoint: &mut Map<String, Value>) {
    let Some(Value::Object(mut topology)) = endpoint.remove("topology") else { return };
    if let Some(zone) = topology.remove(ZONE) {
        endpoint.insert("zone".to_owned(), zone);
    }
    if let Some(node) = topology.remove(HOSTNAME) {
        endpoint.entry("nodeName").or_insert(node);
    }
    if !topology.is_empty() {
        endpoint.insert("deprecatedTopology".to_owned(), Value::Object(topology));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn encoded(form: Form, mut object: Value) -> Value {
        form.encode(object.as_object_mut().unwrap());
        object
    }

    #[test]
    fn slices_have_node_and_zone_in_their_topology() {
        let stored =
            json!({"endpoints": [{"addresses": ["10.0.0.1"], "nodeName": "a", "zone": "z"}, {"addresses": []}]});
        let topology = json!({"kubernetes.io/hostname": "a", "topology.kubernetes.io/zone": "z"});
        let expected = json!({"endpoints": [
            {"addresses": ["10.0.0.1"], "nodeName": "a", "topology": topology}, {"addresses": []}
        ]});
        let mut beta = encoded(Form::SliceTopology, stored.clone());
        assert_eq!(beta, expected);
        Form::SliceTopology.decode(beta.as_object_mut().unwrap());
        assert_eq!(beta, stored);
    }

    #[test]
    fn the_hostname_of_a_slice_without_node_names_is_the_node() {
        let mut beta = json!({"endpoints": [{"topology": {"kubernetes.io/hostname": "a", "rack": "7"}}]});
        Form::SliceTopology.decode(beta.as_object_mut().unwrap());
        assert_eq!(beta, json!({"endpoints": [{"nodeName": "a", "deprecatedTopology": {"rack": "7"}}]}));
    }

    #[test]
    fn events_have_the_names_of_their_group() {
        let stored = json!({"involvedObject": {"name": "a"}, "message": "x", "reason": "Starting"});
        let mut event = encoded(Form::GroupEvent, stored.clone());
        assert_eq!(event, json!({"regarding": {"name": "a"}, "note": "x", "reason": "Starting"}));
        Form::GroupEvent.decode(event.as_object_mut().unwrap());
        assert_eq!(event, stored);
    }
}
