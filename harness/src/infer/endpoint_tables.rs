//! Tables of Endpoints: they list the ready endpoints of one family, that of a Service's first cluster IP.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};
use svclab_rules::cluster::Family;
use svclab_rules::infer::InferredPort;

use super::Assumption;
use super::accessors::endpoint_ips;
use crate::text::list;

/// The most endpoints that are named.
const SHOWN: usize = 5;

/// The endpoints of a Service that rules have, and that a table of Endpoints cannot list.
pub(super) struct Unlisted {
    /// Those that it lists.
    listed: BTreeSet<IpAddr>,
    /// The family of the table.
    family: Family,
    /// Those that serve while they are terminating.
    terminating: BTreeSet<IpAddr>,
}

impl Unlisted {
    /// Returns `None` if the tables may list all endpoints in the rules of these ports.
    pub(super) fn of<'p>(
        tables: &[&Value],
        service: Option<&Value>,
        ports: impl Iterator<Item = &'p InferredPort>,
        is_here: &dyn Fn(IpAddr) -> bool,
    ) -> Option<Self> {
        if tables.iter().any(|one| one["kind"] != "Endpoints") {
            return None;
        }
        let listed: BTreeSet<IpAddr> = tables.iter().flat_map(|one| endpoint_ips(one)).collect();
        let first = listed.first().copied().or_else(|| service?["spec"]["clusterIP"].as_str()?.parse().ok())?;
        let family = Family::of(first);
        let (mut all, mut local) = (BTreeSet::new(), BTreeSet::new());
        for port in ports {
            all.extend(port.endpoints.iter().chain(&port.local).map(SocketAddr::ip));
            local.extend(port.local.iter().map(SocketAddr::ip).filter(|ip| Family::of(*ip) == family));
        }
        let of_table: BTreeSet<IpAddr> = all.iter().copied().filter(|ip| Family::of(*ip) == family).collect();
        // kube-proxy uses terminating endpoints where none is ready: in the cluster, or, with policy Local, on its node.
        let is_none_ready_here = local.is_disjoint(&listed) && !listed.iter().any(|ip| is_here(*ip));
        let terminating = match listed.is_empty() {
            true => of_table.clone(),
            false if is_none_ready_here => local,
            false => BTreeSet::new(),
        };
        let has_other_family = all.len() > of_table.len();
        (has_other_family || !terminating.is_empty()).then_some(Self { listed, family, terminating })
    }

    /// What is assumed of them.
    pub(super) fn words(&self, service: &str) -> Option<Assumption> {
        let words = || {
            format!(
                "endpoints of {service} in the rules that a table of Endpoints does not list are taken as terminating: {}",
                list(&self.terminating, SHOWN)
            )
        };
        (!self.terminating.is_empty()).then(|| Assumption::Contradiction(words()))
    }

    /// The EndpointSlices that rules show, without the endpoints that the table would list.
    pub(super) fn retained(&self, mut slices: Vec<Value>) -> Vec<Value> {
        for slice in &mut slices {
            let all = slice["endpoints"].as_array_mut().map(std::mem::take).unwrap_or_default();
            slice["endpoints"] = all.into_iter().filter_map(|one| self.kept(one)).collect();
        }
        slices
    }

    fn kept(&self, mut endpoint: Value) -> Option<Value> {
        let ip: IpAddr = endpoint["addresses"][0].as_str()?.parse().ok()?;
        if self.terminating.contains(&ip) {
            endpoint["conditions"] = json!({"ready": false, "serving": true, "terminating": true});
            return Some(endpoint);
        }
        (Family::of(ip) != self.family || self.listed.contains(&ip)).then_some(endpoint)
    }
}
