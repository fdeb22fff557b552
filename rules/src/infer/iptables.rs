//! Inference from iptables rules.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::cluster_ips::ClusterIps;
use super::endpoints::endpoints;
use super::model::{self, DEFAULT_AFFINITY_TIMEOUT, Inferred, InferredPort, InferredProxy, Marked, UNNAMED};
use super::unreached_chains::unreached;
use super::unreferenced_endpoints::{Orphan, orphans};
use crate::chains::iptables::{
    Known, MASQUERADE, NODE_PORTS, Names, Table, balances, frontend, host, kind_of, marks_for_masquerade, service_in,
    shared_by, transport,
};
use crate::chains::{Frontend, Kind, Policy};
use crate::cluster::{Family, Protocol};
use crate::iptables::{
    Chain, ChainHash, ChainKind, Match, Negatable, Network, RouteType, Rule, RuleSet, TableName, Target,
};

/// Reads the rules of a family. `is_whole` returns whether all rules of a chain of table `nat` are shown.
pub(super) fn read(rules: &RuleSet, is_whole: &dyn Fn(&str) -> bool) -> Inferred {
    let names = Names::of(rules);
    let known = Known([&names, &names]);
    let mut reader = Reader {
        family: rules.family,
        names: known.services(),
        known,
        ports: BTreeMap::new(),
        marked: Vec::new(),
        cluster_ips: ClusterIps::default(),
        proxy: InferredProxy::default(),
        served: BTreeSet::new(),
        rejected: BTreeSet::new(),
        dropped: BTreeSet::new(),
        firewalls: BTreeSet::new(),
        node_ports: BTreeMap::new(),
        health_checks: BTreeMap::new(),
    };
    for table in &rules.tables {
        table.chains.iter().for_each(|chain| reader.chain(table.name, chain));
    }
    if let Some(nat) = rules.table(TableName::Nat) {
        for of_group in endpoints(&Table::new(nat, rules.family)) {
            if let Some(hash) = ChainHash::parse_edited(of_group.base) {
                of_group.add_to(reader.port(hash, None));
            }
        }
        // If KUBE-SERVICES is not in the text, a service may appear only in its endpoints' chains.
        let is_listed = nat.chain("KUBE-SERVICES").is_some();
        for Orphan { port, name, protocol, endpoint, records_clients } in orphans(nat, is_whole) {
            if is_listed && !reader.ports.contains_key(&port) {
                continue;
            }
            reader.names.entry(port).or_insert(name);
            let port = reader.port(port, Some(protocol));
            port.endpoints.insert(endpoint);
            // The rules that would show the timeout are not in the text.
            port.affinity = port.affinity.or(records_clients.then_some(DEFAULT_AFFINITY_TIMEOUT));
        }
        nat.chains.iter().for_each(|chain| reader.hidden(chain));
        for (hash, chain) in unreached(nat, is_whole) {
            reader.port(hash, None).unreached_chain = Some(chain);
        }
    }
    reader.finish()
}

struct Reader<'a> {
    family: Family,
    known: Known<'a>,
    names: BTreeMap<ChainHash, String>,
    ports: BTreeMap<ChainHash, InferredPort>,
    /// Which packets to an address are marked for masquerading.
    marked: Vec<(IpAddr, Marked<'a>)>,
    cluster_ips: ClusterIps,
    proxy: InferredProxy,
    /// The service ports with rules that kube-proxy writes only where there are endpoints.
    served: BTreeSet<ChainHash>,
    /// The service ports whose connections are rejected: those that have no endpoints, also if old releases leave rules that lead to none.
    rejected: BTreeSet<ChainHash>,
    /// The service ports whose chain for policy Local drops connections.
    dropped: BTreeSet<ChainHash>,
    /// The service ports with chains of source ranges.
    firewalls: BTreeSet<ChainHash>,
    /// The service port whose rules for a node port come first.
    node_ports: BTreeMap<(Protocol, u16), ChainHash>,
    /// The ports of health checks without a comment, each with the number of its rules.
    health_checks: BTreeMap<u16, usize>,
}

impl<'a> Reader<'a> {
    fn chain(&mut self, table: TableName, chain: &'a Chain) {
        let rules = chain.rules.iter();
        match (table, &*chain.name) {
            (TableName::Nat, "KUBE-SERVICES") => rules.for_each(|rule| self.portal(rule)),
            (TableName::Nat, NODE_PORTS) => rules.for_each(|rule| self.node_port(rule)),
            (TableName::Filter, "KUBE-SERVICES") => rules.for_each(|rule| self.rejected(rule, true)),
            (TableName::Filter, "KUBE-EXTERNAL-SERVICES") => rules.for_each(|rule| self.rejected(rule, false)),
            (TableName::Filter, NODE_PORTS) => rules.for_each(|rule| self.health_check(rule)),
            (TableName::Filter, "KUBE-PROXY-FIREWALL") => rules.for_each(|rule| self.firewall_drop(rule)),
            (TableName::Nat, MASQUERADE | "KUBE-POSTROUTING") | (TableName::Filter, "KUBE-FORWARD") => {
                rules.for_each(|rule| self.of_mark(rule));
            }
            (_, name) => match kind_of(name) {
                Some((Kind::Group(policy), hash)) => rules.for_each(|rule| self.in_group(policy, hash, rule)),
                Some((Kind::External, hash)) => rules.for_each(|rule| self.in_external(hash, rule)),
                Some((Kind::Firewall, hash)) => {
                    self.firewalls.insert(hash);
                    self.in_firewall(hash, &chain.rules);
                }
                Some((Kind::Endpoint, _)) | None => {}
            },
        }
        if let Some(hash) = ChainKind::ExternalLocal.hash(&chain.name) {
            // Without local endpoints, the chain drops its packets.
            let drops = |rule: &Rule| {
                rule.target == Some(Target::Drop) || rule.next_chain().is_some_and(|next| **next == *"KUBE-MARK-DROP")
            };
            let is_dropped = chain.rules.iter().any(drops);
            let leads_here = !chain.rules.is_empty() && !is_dropped;
            self.dropped.extend(is_dropped.then_some(hash));
            let port = self.port(hash, None);
            port.is_external_local = true;
            port.has_local_endpoints |= leads_here;
        }
        // The name of such a chain is enough, even if its rules are not in the text.
        for hash in chain.rules.iter().filter_map(|rule| ChainKind::ExternalLocal.hash(rule.next_chain()?)) {
            self.port(hash, None).is_external_local = true;
        }
    }

    /// Returns a service port, by the hash in its chains' names.
    fn port(&mut self, hash: ChainHash, protocol: Option<Protocol>) -> &mut InferredPort {
        let unnamed = || format!("default/{UNNAMED}{}", hash.as_str().to_lowercase());
        let names = &self.names;
        let port = self.ports.entry(hash).or_insert_with(|| {
            let name = names.get(&hash).cloned().unwrap_or_else(unnamed);
            InferredPort::named(&name, protocol_by_hash(&name, hash))
        });
        port.protocol = protocol.unwrap_or(port.protocol);
        port.hash = Some(hash);
        port.families.insert(self.family);
        port
    }

    /// Counts the endpoints that a service's rules balance among and that the text does not show.
    fn hidden(&mut self, chain: &Chain) {
        let Some(port) = ChainKind::Service.hash(&chain.name).and_then(|hash| self.ports.get_mut(&hash)) else {
            return;
        };
        let leads: Vec<&Rule> = chain.rules.iter().filter(|rule| balances(rule)).collect();
        let known = port.endpoints.len().max(leads.len());
        port.hidden_endpoints = shared_by(&leads).unwrap_or_default().saturating_sub(known);
    }

    /// Returns the service port of a rule in a list.
    fn owner(&mut self, rule: &Rule) -> Option<&mut InferredPort> {
        let (hash, name) = self.known.owner(rule)?;
        let name = name.map(str::to_owned).or_else(|| Some(format!("default/{}", name_without_namespace(rule)?)));
        if let Some(name) = name {
            self.names.entry(hash).or_insert(name);
        }
        Some(self.port(hash, transport(rule)))
    }

    /// A service port of which only an address, or a port on nodes, is known: nothing names it, and it has no chain.
    fn unnamed(&mut self, frontend: Frontend) -> &mut InferredPort {
        let address = frontend.address.map(|address| address.to_string().replace(['.', ':'], "-"));
        let words = address.unwrap_or_else(|| "node-port".to_owned());
        let (protocol, number) = (frontend.protocol, frontend.port);
        let name = format!("default/{UNNAMED}{}:{}-{number}", words.trim_matches('-'), protocol.as_str());
        let hash = ChainHash::for_service_port(&name, protocol);
        self.names.entry(hash).or_insert(name);
        self.port(hash, Some(protocol))
    }

    /// Reads a rule of `KUBE-SERVICES` in `nat`.
    fn portal(&mut self, rule: &'a Rule) {
        if rule.next_chain().is_some_and(|next| **next == *NODE_PORTS) {
            match &rule.destination {
                Some(Negatable { negated: false, value }) => self.proxy.node_port_addresses.extend(host(value)),
                _ => drop(self.proxy.families_on_all_addresses.insert(self.family)),
            }
            return;
        }
        self.marks(rule);
        let served = self.known.owner(rule).map(|(hash, _)| hash);
        self.served.extend(served);
        let kind = rule.next_chain().and_then(|next| kind_of(next)).map(|(kind, _)| kind);
        if kind.is_none() && !is_marked_for_name(rule) {
            return;
        }
        let Some((ip, number)) = frontend(rule).and_then(|frontend| Some((frontend.address?, frontend.port))) else {
            return;
        };
        let Some(port) = self.owner(rule) else { return };
        port.port = Some(number);
        if kind == Some(Kind::Firewall) || says(rule, "loadbalancer IP") {
            port.load_balancer.push(ip);
        } else if kind == Some(Kind::External) || says(rule, "external IP") {
            port.external_ips.push(ip);
        } else {
            port.is_internal_local |= kind == Some(Kind::Group(Policy::Local));
            port.has_local_endpoints |= kind == Some(Kind::Group(Policy::Local));
            match port.hash {
                Some(hash) if kind.is_some() => self.cluster_ips.leads(hash, rule, ip),
                Some(hash) => self.cluster_ips.marks(hash, rule, ip, Policy::Cluster),
                None => {}
            }
        }
    }

    /// Reads a rule that sets, clears or compares the mark of packets to be masqueraded.
    fn of_mark(&mut self, rule: &Rule) {
        let compared = rule.matches.iter().filter_map(|one| match one {
            Match::Mark(mark) => Some(mark.value.mask),
            _ => None,
        });
        let changed = rule.target.iter().filter_map(|target| match target {
            Target::Mark(mark) => Some(mark.value),
            _ => None,
        });
        compared.chain(changed).for_each(|bits| self.proxy.uses_mark(bits));
    }

    /// Records which packets a rule marks for masquerading.
    fn marks(&mut self, rule: &'a Rule) {
        let Some(ip) = frontend(rule).and_then(|frontend| frontend.address) else { return };
        if !marks_for_masquerade(rule) {
            return;
        }
        let marked = match (&rule.source, &rule.in_interface) {
            (None, None) => Marked::Always,
            (Some(source), None) if source.negated => match prefix(&source.value) {
                Some(range) => Marked::Outside(range),
                None => return,
            },
            (None, Some(interface)) if interface.negated => Marked::NotBy(&interface.value),
            _ => return,
        };
        self.marked.push((ip, marked));
    }

    fn node_port(&mut self, rule: &Rule) {
        let Some(frontend) = frontend(rule).filter(|frontend| frontend.address.is_none()) else { return };
        if (rule.next_chain().is_some_and(|next| kind_of(next).is_some()) || is_marked_for_name(rule))
            && let Some(port) = self.owner(rule)
        {
            let hash = port.hash;
            self.served.extend(hash);
            if let Some(hash) = hash {
                self.give_node_port(hash, frontend);
            }
        }
    }

    /// Gives a service port a node port; of several, the one whose rules come first gets all connections.
    fn give_node_port(&mut self, hash: ChainHash, Frontend { protocol, port: number, .. }: Frontend) {
        let first = *self.node_ports.entry((protocol, number)).or_insert(hash);
        if let Some(port) = self.ports.get_mut(&hash) {
            let place = if first == hash { &mut port.node_port } else { &mut port.shadowed_node_port };
            *place = Some(number);
        }
    }

    fn health_check(&mut self, rule: &Rule) {
        let Some(frontend) = frontend(rule).filter(|_| rule.target == Some(Target::Accept)) else { return };
        // The health check is TCP whatever the service's protocol: only the name identifies the service port.
        let name = service_in(rule);
        if rule.comment().is_none() {
            *self.health_checks.entry(frontend.port).or_default() += 1;
            return;
        }
        let hash = name.and_then(|name| self.names.iter().find(|(_, known)| *known == name)).map(|(hash, _)| *hash);
        if let Some(hash) = hash {
            let port = self.port(hash, None);
            port.health_check = Some(frontend.port);
            // Only load balancer services with this policy have health checks.
            port.is_external_local = true;
        }
    }

    /// Reads a rule for traffic to a load balancer that is not from its source ranges.
    fn firewall_drop(&mut self, rule: &Rule) {
        let Some(frontend) = frontend(rule).filter(|_| rule.target == Some(Target::Drop)) else { return };
        let (Some(ip), Some(port)) = (frontend.address, self.owner(rule)) else { return };
        port.port = port.port.or(Some(frontend.port));
        port.load_balancer.push(ip);
        port.has_unshown_source_ranges = true;
        // Without endpoints there is no such rule.
        let hash = port.hash;
        self.served.extend(hash);
    }

    /// Reads a rule for a service without usable endpoints.
    fn rejected(&mut self, rule: &Rule, is_internal: bool) {
        // The comment says why, also where the target is another one than kube-proxy writes.
        let has_none = says(rule, "has no endpoints");
        let is_dropped = match rule.target {
            Some(Target::Drop) => !has_none,
            Some(Target::Reject(_)) => false,
            Some(Target::Accept) if has_none => false,
            _ => return,
        };
        if !has_none && is_to_other(rule) {
            // A proposal for IPVS mode has source ranges in this form. It says nothing of endpoints.
            return;
        }
        let Some(frontend) = frontend(rule) else { return };
        let port = match self.known.owner(rule) {
            Some(_) => self.owner(rule),
            None => Some(self.unnamed(frontend)),
        };
        let Some(port) = port else { return };
        match frontend.address {
            Some(ip) => {
                port.port = Some(frontend.port);
                if !is_internal {
                    port.external_ips.push(ip);
                }
            }
            None => port.node_port = Some(frontend.port),
        }
        port.has_endpoints_elsewhere |= is_dropped;
        port.is_internal_local |= is_dropped && is_internal;
        port.is_external_local |= is_dropped && !is_internal;
        let hash = port.hash;
        if let (Some(hash), Some(ip)) = (hash, frontend.address.filter(|_| is_internal)) {
            self.cluster_ips.leads(hash, rule, ip);
        }
        if let (Some(hash), None) = (hash, frontend.address) {
            self.node_ports.entry((frontend.protocol, frontend.port)).or_insert(hash);
        }
        self.rejected.extend(hash.filter(|_| !is_dropped));
    }

    fn in_group(&mut self, policy: Policy, hash: ChainHash, rule: &'a Rule) {
        self.marks(rule);
        // Mostly traffic to the cluster IP is marked here, and an excerpt may contain that address nowhere else; up to 1.22 also that to others.
        if marks_for_masquerade(rule)
            && !is_to_other(rule)
            && let Some((frontend, ip)) = frontend(rule).and_then(|frontend| Some((frontend, frontend.address?)))
        {
            let port = self.port(hash, Some(frontend.protocol));
            port.port = port.port.or(Some(frontend.port));
            self.cluster_ips.marks(hash, rule, ip, policy);
        }
        self.of_pods(rule);
    }

    /// Reads a rule of traffic from the cluster's pods to addresses other than the cluster IP, which policy Local does not apply to.
    fn of_pods(&mut self, rule: &'a Rule) {
        if !leads_to_group(rule) {
            return;
        }
        match (positive_source(rule), &rule.in_interface) {
            (Some(range), None) => self.proxy.marks(&Marked::Outside(range)),
            (None, Some(interface)) if !interface.negated => self.proxy.marks(&Marked::NotBy(&interface.value)),
            _ => {}
        }
    }

    fn in_external(&mut self, hash: ChainHash, rule: &'a Rule) {
        self.of_pods(rule);
        let local = Some(Negatable::is(RouteType::Local));
        let asks_for_the_node =
            |condition: &Match| matches!(condition, Match::AddressType(types) if types.source == local);
        let is_local = rule.matches.iter().any(asks_for_the_node)
            || rule.next_chain().is_some_and(|next| matches!(kind_of(next), Some((Kind::Group(Policy::Local), _))));
        let leads_here = rule.source.is_none()
            && rule.next_chain().is_some_and(|next| matches!(kind_of(next), Some((Kind::Group(Policy::Local), _))));
        let port = self.port(hash, None);
        port.is_external_local |= is_local;
        port.has_local_endpoints |= leads_here;
    }

    fn in_firewall(&mut self, hash: ChainHash, rules: &[Rule]) {
        let kind = |rule: &Rule| kind_of(rule.next_chain()?).map(|(kind, _)| kind);
        let leading = || rules.iter().filter(|rule| kind(rule).is_some());
        let mut ranges: Vec<IpNet> = leading().filter_map(positive_source).collect();
        // Older releases write such a chain without source ranges, too, which leads all traffic to the chain of the service.
        let has_ranges = !ranges.is_empty() || leading().any(|rule| kind(rule) == Some(Kind::External));
        if has_ranges && leading().any(Rule::is_unconditional) {
            ranges.push(self.family.everything());
        }
        self.port(hash, None).source_ranges.extend(ranges);
    }

    fn finish(self) -> Inferred {
        let Self {
            family,
            mut proxy,
            marked,
            cluster_ips,
            mut ports,
            served,
            rejected,
            dropped,
            firewalls,
            health_checks,
            ..
        } = self;
        cluster_ips.give(&mut ports);
        ports.iter_mut().for_each(|(hash, port)| port.has_unshown_source_ranges &= !firewalls.contains(hash));
        give_health_checks(&mut ports, health_checks);
        for (hash, port) in ports.iter_mut().filter(|(_, port)| port.endpoints.is_empty() && port.local.is_empty()) {
            // The rule that leads to the chain may not be shown.
            port.has_endpoints_elsewhere |= dropped.contains(hash);
            if served.contains(hash) && !rejected.contains(hash) {
                port.unshown_endpoints.insert(family);
            }
        }
        let mut ports: Vec<InferredPort> = ports.into_values().collect();
        let own =
            |port: &InferredPort| port.cluster_ips.iter().chain(&port.other_cluster_ips).copied().collect::<Vec<_>>();
        let cluster_ips: HashSet<IpAddr> = ports.iter().flat_map(own).collect();
        for (_, marked) in marked.iter().filter(|(ip, _)| cluster_ips.contains(ip)) {
            proxy.marks(marked);
        }
        model::complete_ports(&mut ports);
        ports.sort();
        Inferred { ports, proxy }
    }
}

/// Gives the services with a load balancer and external policy Local the ports of health checks that no comment assigns: each of them has one,
/// with a rule for each of its service ports.
fn give_health_checks(ports: &mut BTreeMap<ChainHash, InferredPort>, mut health_checks: BTreeMap<u16, usize>) {
    let mut services: BTreeMap<BTreeSet<IpAddr>, Vec<ChainHash>> = BTreeMap::new();
    // Ports without a cluster IP may be those of any Service.
    let is_checked =
        |port: &InferredPort| port.is_external_local && !port.load_balancer.is_empty() && !port.cluster_ips.is_empty();
    for (hash, port) in ports.iter().filter(|(_, port)| is_checked(port) && port.health_check.is_none()) {
        services.entry(port.cluster_ips.clone()).or_default().push(*hash);
    }
    for hashes in services.into_values() {
        let of_number = health_checks.iter().find(|(_, rules)| **rules == hashes.len());
        let Some(number) = of_number.map(|(number, _)| *number) else { continue };
        health_checks.remove(&number);
        ports
            .iter_mut()
            .filter(|(hash, _)| hashes.contains(hash))
            .for_each(|(_, port)| port.health_check = Some(number));
    }
}

/// Returns the protocol in the hash of a service's chain names; TCP if the hash does not fit the name.
fn protocol_by_hash(name: &str, hash: ChainHash) -> Protocol {
    let is_hashed = |protocol: &Protocol| ChainHash::for_service_port(name, *protocol) == hash;
    [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter().find(is_hashed).unwrap_or(Protocol::Tcp)
}

/// Returns the name of a service port in a comment whose namespace was removed: `web:http`.
fn name_without_namespace(rule: &Rule) -> Option<&str> {
    let word = rule.comment()?.split(' ').next()?;
    let is_label = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    word.split_once(':').filter(|(service, port)| is_label(service) && is_label(port)).map(|_| word)
}

/// Returns whether a rule marks traffic to the service that its comment names.
fn is_marked_for_name(rule: &Rule) -> bool {
    marks_for_masquerade(rule) && service_in(rule).is_some()
}

fn says(rule: &Rule, words: &str) -> bool {
    rule.comment().is_some_and(|comment| comment.contains(words))
}

/// Whether a comment says that the address is not a cluster IP.
fn is_to_other(rule: &Rule) -> bool {
    ["external IP", "loadbalancer IP"].into_iter().any(|words| says(rule, words))
}

fn leads_to_group(rule: &Rule) -> bool {
    rule.next_chain().is_some_and(|next| matches!(kind_of(next), Some((Kind::Group(_), _))))
}

fn prefix(network: &Network) -> Option<IpNet> {
    match network {
        Network::Prefix(range) => Some(*range),
        Network::Masked(_) => None,
    }
}

fn positive_source(rule: &Rule) -> Option<IpNet> {
    rule.source.as_ref().filter(|source| !source.negated).and_then(|source| prefix(&source.value))
}
