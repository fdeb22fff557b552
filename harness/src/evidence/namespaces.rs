//! The namespaces of objects in tables that have no column for it.
//!
//! `kubectl get` prints the namespace only for all of them. A table is of one namespace: the one in which rules or other objects have a
//! Service, endpoints or pods of its rows. If nothing shows it, the namespace is not set, which means `default`.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use serde_json::{Value, json};
use svclab_rules::infer::InferredPort;

use super::endpoints::endpoints;
use super::model::{Contents, Evidence, Format, Piece};

/// An object with the piece that shows it.
type Shown<'e> = (&'e Piece, Cow<'e, Value>);

/// What is known in a namespace: a Service, or only addresses.
struct Known {
    namespace: String,
    service: String,
    cluster_ips: BTreeSet<IpAddr>,
    endpoints: BTreeSet<IpAddr>,
}

/// What a row shows.
struct Row {
    service: String,
    cluster_ips: BTreeSet<IpAddr>,
    endpoints: BTreeSet<IpAddr>,
}

/// How many rounds of inferring the namespace of one table from another are made.
const ROUNDS: usize = 3;

/// All objects, in the namespaces that the evidence shows; `ports` returns the service ports in its rules.
pub(crate) fn shown_objects<'e>(
    evidence: &'e Evidence,
    ports: impl FnOnce() -> Vec<InferredPort>,
) -> Vec<(&'e Piece, Cow<'e, Value>)> {
    let mut all: Vec<Vec<Shown<'e>>> = Vec::new();
    for piece in &evidence.pieces {
        if let Contents::Objects(objects) = &piece.contents {
            all.push(objects.iter().map(|object| (piece, Cow::Borrowed(object))).collect());
        }
    }
    let is_open = |table: &Vec<Shown<'_>>| table.iter().any(|(piece, object)| lacks_namespace(piece, object));
    if all.iter().any(is_open) {
        let ports: Vec<Known> = ports().iter().filter_map(known_of_port).collect();
        for _ in 0..ROUNDS {
            let of_objects = all.iter().flatten().filter_map(|(_, object)| known_of_object(object));
            let known: Vec<Known> = of_objects.collect();
            let known = Index::of(ports.iter().chain(&known));
            let changed = all.iter_mut().filter(|table| is_open(table)).map(|table| assign_namespaces(table, &known));
            if !changed.fold(false, |any, one| any | one) {
                break;
            }
        }
    }
    all.into_iter().flatten().collect()
}

fn lacks_namespace(piece: &Piece, object: &Value) -> bool {
    piece.format == Format::KubectlTable && row(object).is_some() && object["metadata"]["namespace"].is_null()
}

/// Sets the namespace of a table's rows: the one that all rows agree on, otherwise each row's own. Returns whether anything changed.
fn assign_namespaces(table: &mut [Shown<'_>], known: &Index<'_>) -> bool {
    let rows: Vec<Option<Row>> = table.iter().map(|(_, object)| row(object)).collect();
    let of_row = |row: &Option<Row>| row.as_ref().map(|row| known.certain(row)).unwrap_or_default();
    let of_rows: Vec<BTreeSet<&str>> = rows.iter().map(of_row).collect();
    let certain: BTreeSet<&str> = of_rows.iter().flatten().copied().collect();
    let possible = || rows.iter().flatten().flat_map(|row| known.possible(row)).collect::<BTreeSet<&str>>();
    let common = if certain.is_empty() { only(&possible()) } else { only(&certain) };
    let chosen: Vec<Option<String>> =
        of_rows.iter().map(|own| common.or_else(|| only(own)).map(str::to_owned)).collect();
    let mut is_changed = false;
    for ((piece, object), namespace) in table.iter_mut().zip(chosen) {
        if let Some(namespace) = namespace.filter(|_| lacks_namespace(piece, object)) {
            object.to_mut()["metadata"]["namespace"] = json!(namespace);
            is_changed = true;
        }
    }
    is_changed
}

fn only<'a>(all: &BTreeSet<&'a str>) -> Option<&'a str> {
    all.first().copied().filter(|_| all.len() == 1)
}

/// What is known, by the name of the Service, and by the addresses of endpoints.
struct Index<'k> {
    by_service: HashMap<&'k str, Vec<&'k Known>>,
    by_endpoint: HashMap<IpAddr, Vec<&'k Known>>,
}

impl<'k> Index<'k> {
    fn of(all: impl Iterator<Item = &'k Known>) -> Self {
        let mut index = Self { by_service: HashMap::new(), by_endpoint: HashMap::new() };
        for known in all {
            index.by_service.entry(known.service.as_str()).or_default().push(known);
            for ip in &known.endpoints {
                index.by_endpoint.entry(*ip).or_default().push(known);
            }
        }
        index
    }

    fn named(&self, service: &str) -> &[&'k Known] {
        self.by_service.get(service).filter(|_| !service.is_empty()).map(Vec::as_slice).unwrap_or_default()
    }

    /// The namespaces that have an address of a row; if the row names a Service, in a Service of this name.
    fn certain(&self, row: &Row) -> BTreeSet<&'k str> {
        let has_address = |one: &&&Known| {
            !row.cluster_ips.is_disjoint(&one.cluster_ips) || !row.endpoints.is_disjoint(&one.endpoints)
        };
        if row.service.is_empty() {
            let all = row.endpoints.iter().filter_map(|ip| self.by_endpoint.get(ip)).flatten();
            return all.map(|one| one.namespace.as_str()).collect();
        }
        self.named(&row.service).iter().filter(has_address).map(|one| one.namespace.as_str()).collect()
    }

    /// The namespaces with a Service of the row's name, and no other cluster IP.
    fn possible(&self, row: &Row) -> BTreeSet<&'k str> {
        let may_be = |one: &&&Known| {
            let is_open = row.cluster_ips.is_empty() || one.cluster_ips.is_empty();
            is_open || !row.cluster_ips.is_disjoint(&one.cluster_ips)
        };
        self.named(&row.service).iter().filter(may_be).map(|one| one.namespace.as_str()).collect()
    }
}

/// What an object of a namespace shows; `None` for others.
fn row(object: &Value) -> Option<Row> {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str()?;
    let ip = |value: &Value| value.as_str().and_then(|text| text.parse::<IpAddr>().ok());
    let mut row = Row { service: name.to_owned(), cluster_ips: BTreeSet::new(), endpoints: BTreeSet::new() };
    match kind {
        "Service" => {
            let all = object["spec"]["clusterIPs"].as_array().into_iter().flatten();
            row.cluster_ips.extend(all.filter_map(ip));
        }
        "Endpoints" | "EndpointSlice" => {
            let named = metadata["labels"]["kubernetes.io/service-name"].as_str().filter(|_| kind == "EndpointSlice");
            row.service = named.unwrap_or(name).to_owned();
            row.endpoints.extend(endpoints(object).into_iter().flat_map(|endpoint| endpoint.addresses));
        }
        "Pod" => {
            row.service.clear();
            row.endpoints.extend(ip(&object["status"]["podIP"]));
        }
        _ => return None,
    }
    Some(row)
}

fn known_of_object(object: &Value) -> Option<Known> {
    let namespace = object["metadata"]["namespace"].as_str()?.to_owned();
    let Row { service, cluster_ips, endpoints } = row(object)?;
    Some(Known { namespace, service, cluster_ips, endpoints })
}

/// A Service whose name rules show; that of one without a comment is made up.
fn known_of_port(port: &InferredPort) -> Option<Known> {
    let endpoints = port.endpoints.iter().chain(&port.local).map(std::net::SocketAddr::ip).collect();
    let cluster_ips = port.cluster_ips.iter().copied().collect();
    let (namespace, service) = (port.service.namespace.clone(), port.service.name.clone());
    (!port.is_unnamed()).then_some(Known { namespace, service, cluster_ips, endpoints })
}
