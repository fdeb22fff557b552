//! The names of services: the content of `/etc/hosts` in a place.

use std::fmt::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::{fs, io};

use svclab_rules::cluster::{Cluster, Service};

/// The lab's own folder, which exists only in its mount namespace.
const FOLDER: &str = "/run/svclab";
/// The resolver configuration without a name server, so that an unknown name fails at once.
pub(super) const RESOLVER: &str = "/run/svclab/resolv.conf";
/// The domain of clusters.
const DOMAIN: &str = "cluster.local";

/// The hosts file for places in a Kubernetes namespace.
pub(super) fn file(namespace: &str) -> PathBuf {
    PathBuf::from(FOLDER).join(format!("hosts.{namespace}"))
}

/// Writes the files of some Kubernetes namespaces for a state of the cluster. The calling thread is in the lab's mount namespace. Existing
/// files are overwritten in place, since they may be mounted.
///
/// # Errors
///
/// Those of the file system.
pub(super) fn write<'n>(cluster: &Cluster, namespaces: impl IntoIterator<Item = &'n str>) -> io::Result<()> {
    fs::create_dir_all(FOLDER)?;
    fs::write(RESOLVER, "# No name server: /etc/hosts has the names of services.\n")?;
    namespaces.into_iter().try_for_each(|namespace| fs::write(file(namespace), text(cluster, namespace)))
}

/// The names of all services, as seen by pods of a Kubernetes namespace, and of nodes.
fn text(cluster: &Cluster, namespace: &str) -> String {
    let mut text = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n".to_owned();
    for service in &cluster.services {
        let (name, of) = (&service.name.name, &service.name.namespace);
        let short = if of == namespace { format!(" {name}") } else { String::new() };
        for address in addresses(cluster, service) {
            let _ = writeln!(text, "{address} {name}.{of}.svc.{DOMAIN} {name}.{of}.svc {name}.{of}{short}");
        }
    }
    for node in &cluster.nodes {
        node.internal_ips.iter().for_each(|address| _ = writeln!(text, "{address} {}", node.name));
    }
    text
}

/// The addresses that DNS returns for a service: its cluster IPs, or the ready endpoints of a headless service.
fn addresses(cluster: &Cluster, service: &Service) -> Vec<IpAddr> {
    if !service.headless {
        return service.cluster_ips.clone();
    }
    let endpoints = cluster.slices_of(&service.name).flat_map(|slice| &slice.endpoints);
    let ready = endpoints.filter(|endpoint| endpoint.may_serve());
    ready.flat_map(|endpoint| endpoint.addresses.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::path::Path;

    use crate::scenario;

    #[test]
    fn services_are_named_as_dns_names_them() {
        let text = "name: services in two namespaces
nodes: [{name: worker, ip: 172.18.0.2}]
pods: [{name: one, ip: 10.244.0.5}, {name: two, ip: 10.244.0.6, ready: false}]
services:
  - {name: web, clusterIP: 10.96.0.10, ports: [{port: 80}]}
  - {name: web, namespace: shop, clusterIP: 10.96.0.11, ports: [{port: 80}]}
  - {name: peers, clusterIP: None, ports: [{port: 80}]}
endpoints: [{service: peers, pods: [one, two]}]
tests: [{name: none, probe: {from: pod/one, to: 'service/web:80'}, expect: {dropped: true}}]";
        let no_files = |_: &Path| Err(ErrorKind::NotFound.into());
        let scenario = scenario::parse(text, Path::new("inline.yaml"), &no_files).unwrap_or_else(|all| panic!("{all}"));
        let expected = "127.0.0.1 localhost
::1 localhost ip6-localhost ip6-loopback
10.96.0.10 web.default.svc.cluster.local web.default.svc web.default
10.96.0.11 web.shop.svc.cluster.local web.shop.svc web.shop web
10.244.0.5 peers.default.svc.cluster.local peers.default.svc peers.default
172.18.0.2 worker
";
        assert_eq!(super::text(&scenario.cluster, "shop"), expected);
    }
}
