//! Validation of objects, as in the API server.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::networking::v1 as networking;
use serde::de::DeserializeOwned;
use serde_json::Value;
use svclab_rules::cluster::Cluster;
use svclab_rules::cluster::objects::{self, FieldError, Reading};

use super::super::resource::Endpoint;
use super::super::status::Rejection;
use super::text_at;

/// Returns a rejection for each object that is invalid, alone or together with the others.
pub(super) fn all(objects: &[(Endpoint, Value)], node_ports: &RangeInclusive<u16>) -> Vec<Rejection> {
    let mut cluster = Cluster::default();
    let mut rejections = Vec::new();
    let mut named: HashMap<String, (Endpoint, &Value)> = HashMap::new();
    for (end, object) in objects {
        named.entry(label(*end, object)).or_insert((*end, object));
        rejections.extend(one(*end, object, node_ports, &mut cluster).err());
    }
    let mut by_object: Vec<(String, Vec<FieldError>)> = Vec::new();
    for error in objects::check(&cluster) {
        match by_object.iter_mut().find(|(object, _)| *object == error.object) {
            Some((_, errors)) => errors.push(error),
            None => by_object.push((error.object.clone(), vec![error])),
        }
    }
    rejections.extend(by_object.into_iter().filter_map(|(label, errors)| {
        let (end, object) = named.get(&label)?;
        Some(Rejection::invalid(*end, object, &errors))
    }));
    rejections
}

/// Returns the object's name in field errors: `Service default/web`.
fn label(end: Endpoint, object: &Value) -> String {
    let (namespace, name) = (text_at(object, "/metadata/namespace"), text_at(object, "/metadata/name"));
    let separator = if namespace.is_empty() { "" } else { "/" };
    format!("{} {namespace}{separator}{name}", end.resource().kind)
}

/// Checks a single object and adds it to the cluster.
fn one(
    end: Endpoint,
    object: &Value,
    node_ports: &RangeInclusive<u16>,
    cluster: &mut Cluster,
) -> Result<(), Rejection> {
    let invalid = |errors: Vec<FieldError>| Rejection::invalid(end, object, &errors);
    match end.resource().kind {
        "Node" => cluster.nodes.push(objects::node(&typed::<core::Node>(end, object)?).map_err(invalid)?),
        "Service" => {
            let service = typed::<core::Service>(end, object)?;
            cluster.services.push(objects::service_within(&service, node_ports.clone()).map_err(invalid)?);
        }
        "EndpointSlice" => {
            let slice = typed::<discovery::EndpointSlice>(end, object)?;
            if let Reading::Kept(slice) = objects::endpoint_slice(&slice).map_err(invalid)? {
                cluster.slices.push(slice);
            }
        }
        "Endpoints" => _ = objects::endpoints(&typed::<core::Endpoints>(end, object)?).map_err(invalid)?,
        "ServiceCIDR" => {
            let ranges = typed::<networking::ServiceCIDR>(end, object)?;
            cluster.service_cidrs.extend(objects::service_cidr(&ranges).map_err(invalid)?);
        }
        _ => named(end, object)?,
    }
    Ok(())
}

/// Checks other objects, which only need a name.
fn named(end: Endpoint, object: &Value) -> Result<(), Rejection> {
    if !text_at(object, "/metadata/name").is_empty() {
        return Ok(());
    }
    let error = FieldError {
        object: label(end, object),
        path: "metadata.name".to_owned(),
        message: "name or generateName is required".to_owned(),
        help: "Give the object a name.".to_owned(),
    };
    Err(Rejection::invalid(end, object, &[error]))
}

/// Parses the typed object. The path of an error is only determined if there is one.
fn typed<T: DeserializeOwned>(end: Endpoint, object: &Value) -> Result<T, Rejection> {
    T::deserialize(object).or_else(|_| {
        serde_path_to_error::deserialize(object)
            .map_err(|error| Rejection::undecodable(end, &error.path().to_string(), &error.inner().to_string()))
    })
}
