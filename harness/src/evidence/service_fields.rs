//! Fields of Services that tables leave out.

use serde_json::{Value, json};

/// Whether a Service is that of a table, which does not show the names of ports.
pub(crate) fn is_service_of_table(service: &Value) -> bool {
    service["spec"]["ports"].as_array().is_some_and(|ports| ports.iter().any(is_made_up))
}

/// Adds the fields that only the rules show to a Service.
pub(crate) fn fill_service(service: &mut Value, shown: &Value) {
    let ports = shown["spec"]["ports"].as_array().cloned().unwrap_or_default();
    let protocol = |one: &Value| one["protocol"].as_str().unwrap_or("TCP").to_owned();
    let count = service["spec"]["ports"].as_array().map_or(0, Vec::len);
    for port in service["spec"]["ports"].as_array_mut().into_iter().flatten() {
        let is_same = |other: &&Value| other["port"] == port["port"] && protocol(other) == protocol(port);
        let Some(known) = ports.iter().find(is_same).or(ports.first().filter(|_| count == 1 && ports.len() == 1))
        else {
            continue;
        };
        let is_made_up = is_made_up(port);
        if is_made_up && known["name"].is_null() {
            port.as_object_mut().map(|fields| fields.remove("name"));
        }
        for field in ["name", "targetPort", "nodePort"] {
            let is_missing = port[field].is_null() || field == "name" && (port[field] == "" || is_made_up);
            // In a manifest, a port without `targetPort` has its own number as one; tables show none.
            let is_default = field == "targetPort" && !is_made_up;
            if is_missing && !is_default && !known[field].is_null() {
                port[field] = known[field].clone();
            }
        }
    }
    add_other_family(service, shown);
    name_external_ips(service, shown);
    for field in [
        "clusterIP",
        "clusterIPs",
        "ipFamilies",
        "ipFamilyPolicy",
        "internalTrafficPolicy",
        "externalTrafficPolicy",
        "healthCheckNodePort",
        "sessionAffinity",
        "sessionAffinityConfig",
        "loadBalancerSourceRanges",
    ] {
        let clashes = match field {
            // A policy for outside traffic needs a type that has some.
            "externalTrafficPolicy" => {
                matches!(service["spec"]["type"].as_str(), None | Some("ClusterIP"))
                    && service["spec"]["externalIPs"].is_null()
            }
            "healthCheckNodePort" | "loadBalancerSourceRanges" => service["spec"]["type"] != "LoadBalancer",
            "clusterIPs" | "ipFamilies" | "ipFamilyPolicy" => {
                service["spec"]["clusterIP"] != shown["spec"]["clusterIP"]
            }
            _ => false,
        };
        if service["spec"][field].is_null() && !shown["spec"][field].is_null() && !clashes {
            service["spec"][field] = shown["spec"][field].clone();
        }
    }
}

/// Adds what a table or description shows to a Service that people wrote: without a cluster IP, it is not as the API server has it.
pub(super) fn fill_manifest(service: &mut Value, shown: &Value) {
    let has_no_address = |one: &Value| one["spec"]["type"] == "ExternalName";
    if !service["spec"]["clusterIP"].is_null() || has_no_address(service) || has_no_address(shown) {
        return;
    }
    let mut shown = shown.clone();
    let has_node_ports = matches!(service["spec"]["type"].as_str(), Some("NodePort" | "LoadBalancer"));
    for port in shown["spec"]["ports"].as_array_mut().into_iter().flatten() {
        let is_made_up = is_made_up(port);
        if let Some(fields) = port.as_object_mut() {
            fields.retain(|field, _| !(field == "name" && is_made_up || field == "nodePort" && !has_node_ports));
        }
    }
    fill_service(service, &shown);
    let is_balanced = service["spec"]["type"] == "LoadBalancer";
    if is_balanced && service["status"]["loadBalancer"]["ingress"].is_null() && shown["status"].is_object() {
        service["status"] = shown["status"].clone();
    }
}

/// Adds the address of the other family that rules show: a table has a Service's first one alone.
fn add_other_family(service: &mut Value, shown: &Value) {
    let spec = &service["spec"];
    let is_of_table = spec["ipFamilies"].is_null() && spec["clusterIPs"].as_array().is_none_or(|all| all.len() < 2);
    let Some(first) = spec["clusterIP"].as_str().filter(|_| is_of_table) else { return };
    let all: Vec<&str> =
        shown["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let family = |ip: &str| if ip.contains(':') { "IPv6" } else { "IPv4" };
    // Rules of one family show that one alone; of the same family with another address, they contradict the table.
    let contradicts = all.iter().any(|ip| family(ip) == family(first)) && !all.contains(&first);
    let Some(second) = all.iter().find(|ip| family(ip) != family(first)).filter(|_| !contradicts) else { return };
    let (ips, families) = (json!([first, second]), json!([family(first), family(second)]));
    service["spec"]["clusterIPs"] = ips;
    service["spec"]["ipFamilies"] = families;
    service["spec"]["ipFamilyPolicy"] = "RequireDualStack".into();
}

/// Makes addresses of a load balancer external IPs where rules show them to be some: a table has both in one column.
fn name_external_ips(service: &mut Value, shown: &Value) {
    if service["spec"]["type"] != "LoadBalancer" || !service["spec"]["externalIPs"].is_null() {
        return;
    }
    let external = shown["spec"]["externalIPs"].as_array().cloned().unwrap_or_default();
    let Some(ingress) = service["status"]["loadBalancer"]["ingress"].as_array_mut() else { return };
    let moved: Vec<Value> = ingress.extract_if(.., |one| external.contains(&one["ip"])).collect();
    if !moved.is_empty() {
        service["spec"]["externalIPs"] = moved.iter().map(|one| one["ip"].clone()).collect();
    }
}

/// Whether a port's name is the one that the reader of tables made up: `p80-tcp`.
fn is_made_up(port: &Value) -> bool {
    let protocol = port["protocol"].as_str().unwrap_or("TCP").to_lowercase();
    port["name"].as_str().is_some_and(|name| name == format!("p{}-{protocol}", port["port"]))
}

/// Several ports need names; one has none unless it is known.
pub(crate) fn name_ports(service: &mut Value) {
    if let Some([only]) = service["spec"]["ports"].as_array_mut().map(Vec::as_mut_slice)
        && is_made_up(only)
    {
        only.as_object_mut().map(|fields| fields.remove("name"));
    }
    let Some(ports) = service["spec"]["ports"].as_array_mut().filter(|ports| ports.len() > 1) else { return };
    for port in ports {
        if port["name"].as_str().is_none_or(str::is_empty) {
            let protocol = port["protocol"].as_str().unwrap_or("TCP").to_lowercase();
            port["name"] = format!("{protocol}-{}", port["port"]).into();
        }
    }
}
