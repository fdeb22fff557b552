//! A minimal kube-proxy, with which `svclab run --kube-proxy` is tested if there is no real one.
//!
//! It uses kube-rs to watch, `svclab-rules` to generate, and the system's programs to install. It supports kube-proxy's flags and
//! configuration as far as a lab uses them, and its `/healthz` and `/metrics`. Each sync replaces all of its rules.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it logs as kube-proxy does")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Debug;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fs, mem, thread};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Config, Resource, ResourceExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use svclab_rules::cluster::objects::{KubeProxyConfiguration, Object, assemble, proxy_config};
use svclab_rules::cluster::{Cluster, Family, ProxyConfig, ProxyMode};
use svclab_rules::conntrack::{Cleanup, cleanup};
use svclab_rules::iptables::{self, Order, RuleSet};
use svclab_rules::ruleset::Rules;
use tokio::sync::mpsc;

/// The release whose rules it writes, and whose conntrack clean-up it performs.
const RELEASE: &str = "1.30.0";

/// How long changes are collected before a sync.
const GATHERING: Duration = Duration::from_millis(5);

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    if env::args().any(|argument| argument == "--version") {
        println!("Kubernetes v{RELEASE}");
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map_err(Failure::from).and_then(|runtime| runtime.block_on(run())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("E {error}");
            ExitCode::FAILURE
        }
    }
}

/// The fields of the configuration that are not about rules.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Process {
    client_connection: Connection,
    hostname_override: String,
    healthz_bind_address: Option<String>,
    metrics_bind_address: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Connection {
    kubeconfig: String,
}

/// The value of a flag, written `--flag value` or `--flag=value`.
fn flag(name: &str) -> Option<String> {
    let arguments: Vec<String> = env::args().collect();
    let apart = arguments.iter().position(|argument| argument == name).and_then(|at| arguments.get(at + 1).cloned());
    apart.or_else(|| {
        arguments.iter().find_map(|argument| Some(argument.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
    })
}

async fn run() -> Result<(), Failure> {
    let file = fs::read_to_string(flag("--config").ok_or("--config is missing")?)?;
    let process: Process = serde_yaml::from_str(&file)?;
    let raw: KubeProxyConfiguration = serde_yaml::from_str(&file)?;
    let config = proxy_config(&raw, RELEASE).map_err(listed)?;
    let node = flag("--hostname-override").unwrap_or(process.hostname_override);
    let signals = Arc::new(Signals::default());
    let health = process.healthz_bind_address.unwrap_or_else(|| "0.0.0.0:10256".to_owned());
    let metrics = process.metrics_bind_address.unwrap_or_else(|| "127.0.0.1:10249".to_owned());
    for address in [health, metrics] {
        serve(&address, &signals)?;
    }
    let kubeconfig = Kubeconfig::read_from(process.client_connection.kubeconfig)?;
    let client = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let mut changes = follow(Client::try_from(client)?, &node);
    let mut proxy = Proxy { node, config, signals, objects: Default::default(), cluster: Cluster::default() };
    while let Some(change) = changes.recv().await {
        proxy.signals.queued();
        proxy.take(change);
        while let Ok(Some(change)) = tokio::time::timeout(GATHERING, changes.recv()).await {
            proxy.take(change);
        }
        if proxy.objects.values().filter(|kind| kind.is_complete).count() == KINDS {
            proxy.sync();
        }
    }
    Ok(())
}

/// The number of kinds that are watched.
const KINDS: usize = 3;

/// A change of the objects of a kind.
enum Change {
    ListBegins(&'static str),
    Listed(&'static str, String, Object),
    ListEnds(&'static str),
    Is(&'static str, String, Object),
    IsGone(&'static str, String),
}

/// Watches all objects that rules depend on.
fn follow(client: Client, node: &str) -> mpsc::Receiver<Change> {
    let (sender, receiver) = mpsc::channel(1024);
    // The same selectors as kube-proxy's.
    let others = "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name";
    let all = watcher::Config::default().labels(others);
    let own = watcher::Config::default().fields(&format!("metadata.name={node}"));
    let services = Api::<Service>::all(client.clone());
    tokio::spawn(watch("Service", services, all.clone(), |found| Object::Service(Box::new(found)), sender.clone()));
    let slices = Api::<EndpointSlice>::all(client.clone());
    tokio::spawn(watch(
        "EndpointSlice",
        slices,
        all.streaming_lists(),
        |found| Object::EndpointSlice(Box::new(found)),
        sender.clone(),
    ));
    tokio::spawn(watch("Node", Api::<Node>::all(client), own, |found| Object::Node(Box::new(found)), sender));
    receiver
}

async fn watch<K>(
    kind: &'static str,
    api: Api<K>,
    config: watcher::Config,
    object: fn(K) -> Object,
    sender: mpsc::Sender<Change>,
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut events = std::pin::pin!(watcher(api, config));
    while let Some(event) = events.next().await {
        let key = |found: &K| format!("{}/{}", found.namespace().unwrap_or_default(), found.name_any());
        let change = match event {
            Ok(Event::Init) => Change::ListBegins(kind),
            Ok(Event::InitApply(found)) => Change::Listed(kind, key(&found), object(found)),
            Ok(Event::InitDone) => Change::ListEnds(kind),
            Ok(Event::Apply(found)) => Change::Is(kind, key(&found), object(found)),
            Ok(Event::Delete(found)) => Change::IsGone(kind, key(&found)),
            Err(error) => {
                eprintln!("W {kind}: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        if sender.send(change).await.is_err() {
            return;
        }
    }
}

/// The objects of a kind.
#[derive(Default)]
struct Kind {
    is_complete: bool,
    objects: BTreeMap<String, Object>,
    /// The objects of a list that is not complete yet.
    listed: BTreeMap<String, Object>,
}

struct Proxy {
    node: String,
    config: ProxyConfig,
    signals: Arc<Signals>,
    objects: BTreeMap<&'static str, Kind>,
    /// The cluster at the last sync.
    cluster: Cluster,
}

impl Proxy {
    fn take(&mut self, change: Change) {
        match change {
            Change::ListBegins(kind) => self.objects.entry(kind).or_default().listed.clear(),
            Change::Listed(kind, key, object) => _ = self.objects.entry(kind).or_default().listed.insert(key, object),
            Change::ListEnds(kind) => {
                let kind = self.objects.entry(kind).or_default();
                (kind.is_complete, kind.objects) = (true, mem::take(&mut kind.listed));
            }
            Change::Is(kind, key, object) => _ = self.objects.entry(kind).or_default().objects.insert(key, object),
            Change::IsGone(kind, key) => _ = self.objects.entry(kind).or_default().objects.remove(&key),
        }
    }

    /// Writes the rules for the objects, and updates the signals.
    fn sync(&mut self) {
        match self.write() {
            Ok(()) => self.signals.synced(),
            Err(error) => {
                eprintln!("E sync failed: {error}");
                self.signals.failed();
            }
        }
    }

    fn write(&mut self) -> Result<(), Failure> {
        let objects: Vec<Object> = self.objects.values().flat_map(|kind| kind.objects.values().cloned()).collect();
        let cluster = assemble(&objects, self.config.clone()).map_err(listed)?.cluster;
        // A node that does not exist yet has no rules.
        let Some(node) = cluster.node(&self.node) else { return Ok(()) };
        for family in Family::ALL.into_iter().filter(|family| node.internal_ip(*family).is_some()) {
            let before = self.cluster.node(&self.node).map(|node| Rules::generate(&self.cluster, node, family));
            install(Rules::generate(&cluster, node, family)?, before.transpose()?, family)?;
        }
        if let Cleanup::Calls(calls) = cleanup(&self.cluster, &cluster, node)? {
            for call in calls {
                // It fails if there is no such connection.
                Command::new("conntrack")
                    .args(call.arguments())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status()?;
            }
        }
        self.cluster = cluster;
        Ok(())
    }
}

/// Replaces the rules of the last sync; other iptables rules are kept.
fn install(rules: Rules, before: Option<Rules>, family: Family) -> Result<(), Failure> {
    if rules.mode() == ProxyMode::Nftables {
        let text = before.map_or_else(|| rules.print_sync(), |before| rules.print_sync_after(&before));
        return execute("nft", &["-f", "-"], &text).map(drop);
    }
    let (save, restore) = match family {
        Family::Ipv4 => ("iptables-save", "iptables-restore"),
        Family::Ipv6 => ("ip6tables-save", "ip6tables-restore"),
    };
    let saved = Rules::parse(ProxyMode::Iptables, family, &execute(save, &[], "")?).map_err(listed)?;
    let saved = saved.iptables().cloned().unwrap_or_else(|| RuleSet::new(family));
    let mut others = saved.clone();
    for table in &mut others.tables {
        table.chains.retain(|chain| !chain.name.starts_with("KUBE-"));
        for chain in &mut table.chains {
            chain.rules.retain(|rule| !rule.next_chain().is_some_and(|next| next.starts_with("KUBE-")));
        }
    }
    let generated = rules.iptables().cloned().unwrap_or_else(|| RuleSet::new(family));
    let mut merged = iptables::merge(generated, &others, Order::After);
    keep_places(&mut merged, &saved);
    execute(restore, &["-w"], &iptables::print(&merged)).map(drop)
}

/// Keeps the order of the rules of a chain, like kube-proxy, which inserts only missing jumps.
fn keep_places(rules: &mut RuleSet, saved: &RuleSet) {
    for table in &mut rules.tables {
        for chain in table.chains.iter_mut().filter(|chain| !chain.name.starts_with("KUBE-")) {
            let Some(there) = saved.table(table.name).and_then(|table| table.chain(&chain.name)) else { continue };
            if there.rules.len() == chain.rules.len() && chain.rules.iter().all(|rule| there.rules.contains(rule)) {
                chain.rules.clone_from(&there.rules);
            }
        }
    }
}

/// The output of a program for an input text.
fn execute(program: &str, arguments: &[&str], input: &str) -> Result<String, Failure> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    let stdin = child.stdin.take();
    // The output of a program may fill its pipe before it has read everything.
    let output = thread::scope(|scope| {
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
        child.wait_with_output()
    })?;
    if !output.status.success() {
        return Err(format!("{program}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Several errors as one.
fn listed<T: ToString>(errors: Vec<T>) -> Failure {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ").into()
}

/// The response of `/metrics`.
#[derive(Default)]
struct Signals(Mutex<Times>);

#[derive(Default, Clone, Copy)]
struct Times {
    queued: f64,
    synced: f64,
    failures: u64,
}

impl Signals {
    fn times(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queued(&self) {
        self.times().queued = now();
    }

    fn synced(&self) {
        self.times().synced = now();
    }

    fn failed(&self) {
        self.times().failures += 1;
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Serves `/healthz` and `/metrics` at an address.
fn serve(address: &str, signals: &Arc<Signals>) -> Result<(), Failure> {
    let listener = TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
    let signals = Arc::clone(signals);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if let Err(error) = answer(stream, *signals.times()) {
                eprintln!("W {error}");
            }
        }
    });
    Ok(())
}

fn answer(mut stream: TcpStream, times: Times) -> Result<(), Failure> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut request = BufReader::new(stream.try_clone()?).lines();
    let first = request.next().transpose()?.unwrap_or_default();
    // The rest of the head is read, so that closing does not reset the connection.
    while request.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = first.split_whitespace().nth(1).unwrap_or_default();
    let (status, body) = match path {
        "/healthz" if times.synced > 0.0 => ("200 OK", "ok".to_owned()),
        "/healthz" => ("503 Service Unavailable", "not synced".to_owned()),
        "/metrics" => ("200 OK", metrics(times)),
        _ => ("404 Not Found", String::new()),
    };
    write!(stream, "HTTP/1.0 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    Ok(())
}

fn metrics(times: Times) -> String {
    let Times { queued, synced, failures } = times;
    format!(
        "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds {queued}\n\
         kubeproxy_sync_proxy_rules_last_timestamp_seconds {synced}\n\
         kubeproxy_sync_proxy_rules_iptables_restore_failures_total {failures}\n"
    )
}
