//! Objects as the API accepts them.

use std::net::IpAddr;

use serde_json::Value;

use super::names::{valid, valid_service};

/// The name of an external Service of which the text shows none: no connection depends on it.
const NO_NAME: &str = "name.invalid";

/// Names as the API accepts them, and no endpoints that it rejects.
pub(super) fn make_valid(object: &mut Value) {
    let is_service = object["kind"] == "Service";
    let is_endpoints = object["kind"] == "Endpoints";
    // `kubectl get services,nodes` prints kinds before names.
    if let Some(Value::String(text)) = object.pointer_mut("/metadata/name")
        && let Some((_, own)) = text.split_once('/')
    {
        *text = own.to_owned();
    }
    let mut fix = |place: &str, make: fn(&str) -> String| {
        if let Some(Value::String(text)) = object.pointer_mut(place) {
            *text = make(text);
        }
    };
    fix("/metadata/name", if is_service || is_endpoints { valid_service } else { valid });
    fix("/metadata/namespace", valid);
    fix("/metadata/labels/kubernetes.io~1service-name", valid_service);
    fix("/spec/nodeName", valid);
    if is_service && object["spec"]["type"] == "ExternalName" && !object["spec"]["externalName"].is_string() {
        object["spec"]["externalName"] = NO_NAME.into();
    }
    let is_usable = |ip: &Value| {
        let ip: Option<IpAddr> = ip.as_str().and_then(|text| text.parse().ok());
        ip.is_some_and(|ip| match ip {
            IpAddr::V4(ip) => !(ip.is_loopback() || ip.is_link_local() || ip.is_multicast() || ip.is_unspecified()),
            IpAddr::V6(ip) => {
                !(ip.is_loopback() || ip.is_unicast_link_local() || ip.is_multicast() || ip.is_unspecified())
            }
        })
    };
    for subset in object["subsets"].as_array_mut().into_iter().flatten() {
        for field in ["addresses", "notReadyAddresses"] {
            if let Some(list) = subset[field].as_array_mut() {
                list.retain(|one| is_usable(&one["ip"]));
            }
        }
    }
    if let Some(list) = object["endpoints"].as_array_mut().filter(|_| !is_service) {
        list.retain(|one| is_usable(&one["addresses"][0]));
    }
    let targets =
        object["subsets"].as_array_mut().into_iter().flatten().filter_map(|subset| subset["addresses"].as_array_mut());
    let mut fix_all = |list: &mut Vec<Value>| {
        for one in list {
            for place in ["/targetRef/name", "/targetRef/namespace", "/nodeName"] {
                if let Some(Value::String(text)) = one.pointer_mut(place) {
                    *text = valid(text);
                }
            }
        }
    };
    targets.for_each(&mut fix_all);
    if let Some(list) = object["endpoints"].as_array_mut().filter(|_| !is_service) {
        fix_all(list);
    }
}
