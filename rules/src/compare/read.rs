//! A rule set in terms of services.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

use super::finding::{Address, Fact, Policy};
use super::model::{Chain, Model, Place, push};
use crate::cluster::{Family, Protocol};
use crate::digits;
use crate::iptables::{
    self, ChainHash, Match, Nat, Network, Probability, ProtocolNumber, RecentAction, Rule, RuleSet, Statistic,
    TableName, Target, print_rule,
};

/// Chains in which rules of services stand, in whatever order of services.
const LISTS: [&str; 4] = ["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-EXTERNAL-SERVICES", "KUBE-PROXY-FIREWALL"];

/// The chains that mark packets.
const MASQUERADE: &str = "KUBE-MARK-MASQ";
const DROP: &str = "KUBE-MARK-DROP";

/// The chain of all node ports.
const NODE_PORTS: &str = "KUBE-NODEPORTS";

/// Reads all of a rule set.
pub(super) fn read(rules: &RuleSet) -> Model {
    let mut chains: Vec<(TableName, &iptables::Chain)> =
        rules.tables.iter().flat_map(|table| table.chains.iter().map(|chain| (table.name, chain))).collect();
    chains.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
    let mut reader = Reader::new(rules.family);
    chains.iter().for_each(|(_, chain)| reader.learn(chain));
    for (table, chain) in chains {
        reader.chain(table, chain);
    }
    reader.model
}

/// What a service's chain is for, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `KUBE-SVC`, `KUBE-SVL` and `KUBE-XLB`: endpoints.
    Group(Policy),
    /// `KUBE-EXT`.
    External,
    /// `KUBE-FW`.
    Firewall,
    /// `KUBE-SEP`, whose hash is the endpoint's.
    Endpoint,
}

fn kind_of(chain: &str) -> Option<(Kind, ChainHash)> {
    const KINDS: [(&str, Kind); 6] = [
        ("KUBE-SVC-", Kind::Group(Policy::Cluster)),
        ("KUBE-SVL-", Kind::Group(Policy::Local)),
        ("KUBE-XLB-", Kind::Group(Policy::Local)),
        ("KUBE-EXT-", Kind::External),
        ("KUBE-FW-", Kind::Firewall),
        ("KUBE-SEP-", Kind::Endpoint),
    ];
    KINDS.iter().find_map(|(prefix, kind)| Some((*kind, ChainHash::parse(chain.strip_prefix(prefix)?)?)))
}

/// Whether a chain is one that begins with `KUBE-` and is not kube-proxy's: the kubelet's own
/// (`pkg/kubelet/kubelet_network_linux.go`; up to 1.26 some were both's), or a network policy's of kube-router.
pub(super) fn is_of_others(chain: &str) -> bool {
    const NAMES: [&str; 4] = ["KUBE-KUBELET-CANARY", "KUBE-IPTABLES-HINT", "KUBE-FIREWALL", "KUBE-MARK-DROP"];
    const PREFIXES: [&str; 3] = ["KUBE-ROUTER-", "KUBE-NWPLCY-", "KUBE-POD-FW-"];
    NAMES.contains(&chain) || PREFIXES.iter().any(|prefix| chain.starts_with(prefix))
}

/// The service port of a chain, unless it is an endpoint's.
fn service_of(chain: &str) -> Option<ChainHash> {
    kind_of(chain).filter(|(kind, _)| *kind != Kind::Endpoint).map(|(_, hash)| hash)
}

/// `namespace/name:port` in a rule's comment.
fn name_in(rule: &Rule) -> Option<&str> {
    rule.comment()?.split(' ').find(|word| word.contains('/'))
}

struct Reader {
    family: Family,
    model: Model,
    /// By the names of endpoints' chains: where they translate to.
    endpoints: HashMap<String, String>,
    /// By the names of endpoints' chains: whose they are.
    owners: HashMap<String, ChainHash>,
    /// By the names of services.
    hashes: BTreeMap<String, ChainHash>,
}

impl Reader {
    fn new(family: Family) -> Self {
        let (endpoints, owners) = (HashMap::new(), HashMap::new());
        Self { family, model: Model::default(), endpoints, owners, hashes: BTreeMap::new() }
    }

    /// Learns what chains are called, whose endpoints are, and their addresses.
    fn learn(&mut self, chain: &iptables::Chain) {
        let here = kind_of(&chain.name);
        for rule in &chain.rules {
            let target = rule.next_chain().and_then(|next| kind_of(next).map(|(kind, hash)| (next, kind, hash)));
            match (here, target) {
                (Some((Kind::Endpoint, _)), _) => {
                    if let Some(Target::Dnat(Nat { addresses: Some((address, _)), ports: Some(ports), .. })) =
                        &rule.target
                    {
                        let text = digits::socket(SocketAddr::new(*address, ports.first));
                        self.endpoints.entry(chain.name.to_string()).or_insert_with(|| text.to_string());
                    }
                }
                (Some((_, hash)), Some((endpoint, Kind::Endpoint, _))) => {
                    self.owners.insert(endpoint.to_string(), hash);
                }
                (Some((_, hash)), _) | (None, Some((_, _, hash))) => self.name(hash, rule),
                _ => {}
            }
        }
    }

    fn name(&mut self, hash: ChainHash, rule: &Rule) {
        if let Some(name) = name_in(rule).filter(|_| !self.model.names.contains_key(&hash)) {
            self.model.names.insert(hash, name.to_owned());
            self.hashes.insert(name.to_owned(), hash);
        }
    }

    fn chain(&mut self, table: TableName, chain: &iptables::Chain) {
        match kind_of(&chain.name) {
            Some((Kind::Endpoint, _)) => match self.owner_of_endpoint(chain) {
                Some(hash) => self.endpoint(hash, chain),
                None => self.other(table, chain),
            },
            Some((kind, hash)) => self.of_service(kind, hash, chain),
            None => self.other(table, chain),
        }
    }

    /// The service whose chain leads to an endpoint; for one that none leads to, by its comment.
    fn owner_of_endpoint(&self, chain: &iptables::Chain) -> Option<ChainHash> {
        let by_name = || chain.rules.iter().find_map(name_in).and_then(|name| self.hashes.get(name));
        self.owners.get(&*chain.name).or_else(by_name).copied()
    }

    /// A chain of no service, and rules of services in it.
    fn other(&mut self, table: TableName, chain: &iptables::Chain) {
        let lists = LISTS.contains(&&*chain.name);
        let policy = chain.policy.filter(|policy| *policy == iptables::Policy::Drop).map(|_| "DROP");
        let (mut rules, mut order) = (Vec::new(), Vec::new());
        for rule in &chain.rules {
            let text = self.text(chain, rule);
            match lists.then(|| self.owner(rule)).flatten() {
                Some(hash) => {
                    push(&mut order, Place::Services);
                    let fact = listed(rule).unwrap_or_else(|| Fact::Rule(text.clone()));
                    self.tell(hash, chain, fact, text);
                }
                None => {
                    let node_ports = rule.next_chain().is_some_and(|next| **next == *NODE_PORTS);
                    let fact = Fact::Rule(text);
                    push(&mut order, if node_ports { Place::NodePorts } else { Place::Fact(fact.clone()) });
                    rules.push(fact);
                }
            }
        }
        let builtin = table.builtin_chains().contains(&&*chain.name);
        if !(builtin && order.is_empty() && policy.is_none()) {
            self.model.chains.insert((table, chain.name.to_string()), Chain { policy, rules, order });
        }
    }

    /// Whose a rule of a list is: by the chain that it leads to, else by its comment.
    fn owner(&mut self, rule: &Rule) -> Option<ChainHash> {
        if let Some(hash) = rule.next_chain().and_then(|chain| service_of(chain)) {
            return Some(hash);
        }
        let name = name_in(rule)?;
        let protocol = transport(rule)?;
        let hash = self.hashes.get(name).copied().unwrap_or_else(|| ChainHash::of_service_port(name, protocol));
        self.name(hash, rule);
        Some(hash)
    }

    /// `KUBE-SVC`, `KUBE-SVL`, `KUBE-XLB`, `KUBE-EXT` or `KUBE-FW`.
    fn of_service(&mut self, kind: Kind, hash: ChainHash, chain: &iptables::Chain) {
        let facts = &mut self.model.services.entry(hash).or_default().facts;
        facts.insert(Fact::Chain(chain.name.to_string()), Vec::new());
        let mut rest = 1.0;
        for rule in &chain.rules {
            let text = self.text(chain, rule);
            let endpoint = rule.next_chain().filter(|next| matches!(kind_of(next), Some((Kind::Endpoint, _))));
            let endpoint =
                endpoint.map(|next| self.endpoints.get(&**next).cloned().unwrap_or_else(|| next.to_string()));
            match (kind, endpoint, chance(rule)) {
                (Kind::Group(policy), Some(endpoint), Some(chance)) => {
                    let service = self.model.services.entry(hash).or_default();
                    let group = service.groups.entry(policy).or_default();
                    group.shares.entry(endpoint.clone()).or_default().push(rest * chance.share());
                    group.rules.push((endpoint, chance.threshold()));
                    rest *= 1.0 - chance.share();
                    push(service.order.entry(chain.name.to_string()).or_default(), Place::Balance);
                }
                (Kind::Group(policy), Some(endpoint), None) if checks_recent(rule) => {
                    let service = self.model.services.entry(hash).or_default();
                    service.facts.entry(Fact::Affinity(policy, endpoint)).or_default().push(text);
                    push(service.order.entry(chain.name.to_string()).or_default(), Place::Affinity);
                }
                _ => {
                    let fact = in_chain(kind, rule).unwrap_or_else(|| Fact::Rule(text.clone()));
                    self.tell(hash, chain, fact, text);
                }
            }
        }
    }

    /// `KUBE-SEP`.
    fn endpoint(&mut self, hash: ChainHash, chain: &iptables::Chain) {
        let endpoint = self.endpoints.get(&*chain.name).cloned().unwrap_or_else(|| chain.name.to_string());
        for rule in &chain.rules {
            let text = self.text(chain, rule);
            let fact = match &rule.target {
                Some(Target::Dnat(_)) => Fact::Translation(endpoint.clone()),
                Some(Target::Jump(next)) if **next == *MASQUERADE => Fact::Hairpin(endpoint.clone()),
                _ => Fact::Rule(text.clone()),
            };
            self.tell(hash, chain, fact, text);
        }
    }

    fn tell(&mut self, hash: ChainHash, chain: &iptables::Chain, fact: Fact, text: String) {
        let service = self.model.services.entry(hash).or_default();
        service.order.entry(chain.name.to_string()).or_default().push(Place::Fact(fact.clone()));
        service.facts.entry(fact).or_default().push(text);
    }

    /// A rule without what means nothing to a packet.
    fn text(&self, chain: &iptables::Chain, rule: &Rule) -> String {
        let mut rule = Rule { counters: None, ..rule.clone() };
        rule.matches.retain(|condition| !matches!(condition, Match::Comment(_)));
        print_rule(self.family, &chain.name, &rule)
    }
}

/// What a rule of a list says of its service.
fn listed(rule: &Rule) -> Option<Fact> {
    let address = address(rule)?;
    match rule.target.as_ref()? {
        Target::Jump(chain) if service_of(chain).is_some() => Some(Fact::Entry(address)),
        Target::Accept => Some(Fact::HealthCheck(address.port)),
        _ => marked_or_refused(rule, Some(address)),
    }
}

/// What a rule in a service's own chain says.
fn in_chain(kind: Kind, rule: &Rule) -> Option<Fact> {
    match (kind, &rule.source) {
        (Kind::Firewall, Some(source)) if !source.negated && rule.next_chain().is_some() => match &source.value {
            Network::Prefix(range) => Some(Fact::SourceRange(range.to_string())),
            Network::Masked(_) => None,
        },
        _ => marked_or_refused(rule, address(rule)),
    }
}

fn marked_or_refused(rule: &Rule, address: Option<Address>) -> Option<Fact> {
    match rule.target.as_ref()? {
        Target::Jump(chain) if **chain == *MASQUERADE => Some(Fact::Masquerade(address)),
        Target::Jump(chain) if **chain == *DROP => Some(Fact::Refusal(address)),
        Target::Drop | Target::Reject(_) => Some(Fact::Refusal(address)),
        _ => None,
    }
}

/// The single address and port that a rule looks for.
fn address(rule: &Rule) -> Option<Address> {
    let protocol = transport(rule)?;
    let port = rule.matches.iter().find_map(|condition| match condition {
        Match::Ports(ports) => {
            ports.destination.filter(|range| !range.negated && range.value.first == range.value.last)
        }
        _ => None,
    })?;
    let ip = match &rule.destination {
        None => None,
        Some(destination) if destination.negated => return None,
        Some(destination) => Some(host(&destination.value)?),
    };
    Some(Address { ip, port: port.value.first, protocol })
}

fn transport(rule: &Rule) -> Option<Protocol> {
    rule.protocol
        .filter(|protocol| !protocol.negated)
        .map(|protocol| protocol.value)
        .and_then(ProtocolNumber::transport)
}

fn host(network: &Network) -> Option<IpAddr> {
    match network {
        Network::Prefix(range) => (range.prefix_len() == range.max_prefix_len()).then(|| range.addr()),
        Network::Masked(_) => None,
    }
}

/// The chance of a rule that depends on nothing else.
fn chance(rule: &Rule) -> Option<Probability> {
    let bare = Rule { counters: None, matches: Default::default(), target: None, ..rule.clone() } == Rule::default();
    let mut conditions = rule.matches.iter().filter(|condition| !matches!(condition, Match::Comment(_)));
    match (bare, conditions.next(), conditions.next()) {
        (true, None, None) => Probability::from_threshold(Probability::ONE),
        (true, Some(Match::Statistic(Statistic::Random(chance))), None) if !chance.negated => Some(chance.value),
        _ => None,
    }
}

fn checks_recent(rule: &Rule) -> bool {
    let check = |condition: &Match| match condition {
        Match::Recent(recent) => matches!(recent.action.value, RecentAction::Check | RecentAction::Update),
        _ => false,
    };
    rule.matches.iter().any(check)
}
