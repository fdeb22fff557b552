//! `svclab rules`: the rules that kube-proxy writes on a node. Builds a lab, which needs privileges, only with `--kube-proxy`.

mod diff;
mod program;

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use svclab_rules::cluster::{Cluster, DetectLocal, Family, Node, ProxyConfig, ProxyMode};
use svclab_rules::iptables::RuleSet;
use svclab_rules::profile::Profile;
use svclab_rules::ruleset::Rules;

use super::console::Console;
use super::failure::Failure;
use super::inputs::{InputArgs, scenario_from_objects};
use super::lab_args::BackendArgs;
use super::proxies::{KUBE_PROXY, ProxyArgs, not_applicable};
use super::{Exit, text_of, warn};
use svclab::documents::{self, Document};
use svclab::infer::{cluster_cidrs, is_allocated};
use svclab::input::did_you_mean;
use svclab::input::{is_manifest, read_file, unreadable};
use svclab::proxy::fit;
use svclab::scenario::{self, Install, Note, ObjectCluster, Scenario, Tests};
use svclab::text::one_line;

/// Print the rules of a node, or compare saved rules with them.
///
/// The output has the format of `iptables-save` or `nft list ruleset`; `iptables-restore` and `nft -f` load it unchanged.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A scenario, whose initial rules are used, including those that it adds; or a file of Kubernetes objects; `-` for standard input.
    #[arg(required_unless_present = "diff")]
    path: Option<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    /// The node [default: the first one; with --diff, every node that FILE names]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// The kube-proxy release, such as 1.30 [default: the scenario's; 1.30]
    #[arg(long, value_name = "VERSION", conflicts_with = KUBE_PROXY)]
    release: Option<Profile>,
    /// kube-proxy's mode [default: the scenario's or the configuration's; with --diff that of FILE; iptables]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// The address family [default: ipv4 if the node has an IPv4 address; with --diff all families of FILE, or of the node]
    #[arg(long, value_enum)]
    family: Option<FamilyName>,
    /// For Kubernetes objects: kube-proxy's configuration, a KubeProxyConfiguration.
    #[arg(long, value_name = "FILE")]
    proxy_config: Option<PathBuf>,
    /// Include the rules that count with nfacct (iptables mode, 1.32 and later), as kube-proxy does on a kernel with nfacct.
    #[arg(long)]
    nfacct: bool,
    /// Compare the rules of FILE with the generated ones (from iptables-save, or from `nft list ruleset` with or without
    /// `-j`; `-` for standard input).
    ///
    /// Differences are reported for services and endpoints: `missing` means missing from FILE, `unexpected` means only in
    /// FILE. The exit code is 1 if there are any, or if rules cannot be read. Rules that are not kube-proxy's are
    /// counted; -v also lists their differences, which do not affect the exit code.
    ///
    /// Without FILE, compares the rules of --kube-proxy.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    diff: Option<Option<PathBuf>>,
    #[command(flatten)]
    proxies: ProxyArgs,
    #[command(flatten)]
    backend: BackendArgs,
}

/// The generated rules of a node.
struct Written {
    rules: Rules,
    family: Family,
    /// The node.
    node: String,
    /// The node and release: `node worker (kube-proxy 1.30, IPv4)`.
    whose: String,
}

impl Written {
    fn new(rules: Rules, family: Family, cluster: &Cluster, node: &Node) -> Self {
        let whose = format!("node {} (kube-proxy {}, {family})", node.name, cluster.release_on(node));
        Self { rules, family, node: node.name.clone(), whose }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mode {
    Iptables,
    Nftables,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FamilyName {
    Ipv4,
    Ipv6,
}

impl From<Mode> for ProxyMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Iptables => Self::Iptables,
            Mode::Nftables => Self::Nftables,
        }
    }
}

impl From<FamilyName> for Family {
    fn from(family: FamilyName) -> Self {
        match family {
            FamilyName::Ipv4 => Self::Ipv4,
            FamilyName::Ipv6 => Self::Ipv6,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    rules(args, console).unwrap_or_else(|failure| failure.report(console))
}

fn rules(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let programs = args.proxies.programs()?;
    let Subject { path, saved } = Subject::of(args, programs.is_some())?;
    // Before the rules to compare, which stay: reading objects takes more memory than they do then.
    let mut input = Input::read(path, args, console)?;
    let saved = saved.map(diff::Saved::read).transpose()?;
    if saved.is_some() {
        input.leave_out_own_rules(console);
    }
    if args.mode.is_none() && args.proxy_config.is_none() {
        input.adopt(saved.as_ref().and_then(diff::Saved::mode));
    }
    let all: Vec<&str> = input.cluster().nodes.iter().map(|node| node.name.as_str()).collect();
    let mut nodes = saved.as_ref().filter(|_| args.node.is_none()).map(|saved| saved.nodes(&all)).unwrap_or_default();
    if nodes.is_empty() {
        nodes.push(&node(args.node.as_deref(), input.cluster(), console)?.name);
    }
    let has_address = |node: &str, family: &Family| {
        input.cluster().node(node).is_some_and(|node| node.internal_ip(*family).is_some())
    };
    let family = |node: &str| family(args, |family| has_address(node, family));
    if let Some(programs) = programs {
        let node = nodes[0].to_owned();
        let (family, has_address) = (family(&node), |family: &Family| has_address(&node, family));
        let all = args.diff.is_some() && args.family.is_none();
        let families: Vec<Family> =
            Family::ALL.into_iter().filter(|one| *one == family || all && has_address(one)).collect();
        return program::rules(args, &programs, input.clone(), (&node, &families), console);
    }
    warn_without_nfacct(args, &input.cluster().proxy, console);
    if let Input::Scenario(scenario) = &input {
        fit(None, scenario).map_err(|why| not_applicable(&why))?;
    }
    let Some(saved) = saved else {
        console.data(input.write(nodes[0], family(nodes[0]))?.rules.print().as_bytes());
        return Ok(Exit::Held);
    };
    let families = |node: &str| {
        let families = if args.family.is_some() { Vec::new() } else { saved.families(node, &all) };
        let (families, others): (Vec<Family>, Vec<Family>) =
            families.into_iter().partition(|family| has_address(node, family));
        if families.is_empty() {
            return vec![family(node)];
        }
        for family in others {
            console.complain(format!(
                "note: node {} has no {family} address, so its {family} rules are not compared: see `--family`",
                one_line(node)
            ));
        }
        families
    };
    let compared = nodes.iter().flat_map(|node| families(node).into_iter().map(move |family| (*node, family)));
    let compared = compared.map(|(node, family)| differ(args, &input, &saved, (node, &all), family, console));
    let compared: Vec<Exit> = compared.collect::<Result<_, _>>()?;
    if let Some(words) = saved.not_judged.as_ref().or(saved.not_read.as_ref()) {
        console.complain(format!("note: {}", one_line(words)));
    }
    let is_failed = saved.not_judged.is_some() || compared.contains(&Exit::Failed);
    Ok(if is_failed { Exit::Failed } else { Exit::Held })
}

/// Prints the differences between saved rules of one family and generated ones.
fn differ(
    args: &Args,
    input: &Input,
    saved: &diff::Saved,
    (node, all): (&str, &[&str]),
    family: Family,
    console: &Console,
) -> Result<Exit, Failure> {
    let written = input.write(node, family)?;
    let found = saved.parse(&written, all)?;
    let diff = found.diff(&written);
    let exit = show_diff(&diff, console);
    if args.release.is_none() && !console.quiet {
        let likelier = diff::likelier(&diff, &found, |version| input.with_release(version).write(node, family).ok());
        likelier.iter().for_each(|hint| console.inform(format!("help: {hint}")));
    }
    Ok(exit)
}

/// Prints the differences of several families; returns whether there are any in kube-proxy's own rules.
fn show_all(diffs: &[diff::Diff], console: &Console) -> Exit {
    let ends: Vec<Exit> = diffs.iter().map(|diff| show_diff(diff, console)).collect();
    if ends.contains(&Exit::Failed) { Exit::Failed } else { Exit::Held }
}

/// Prints differences; returns whether there are any in kube-proxy's own rules.
fn show_diff(diff: &diff::Diff, console: &Console) -> Exit {
    console.inform(diff.summary());
    diff.comparison.own.iter().for_each(|finding| console.line(format!("  {finding}")));
    let compared = console.verbose > 0;
    if let Some(rest) = diff.rest(compared) {
        console.inform(rest);
    }
    diff.comparison.in_others.iter().filter(|_| compared).for_each(|finding| console.line(format!("  {finding}")));
    diff.hints().iter().for_each(|hint| console.inform(format!("help: {hint}")));
    if diff.comparison.own.is_empty() { Exit::Held } else { Exit::Failed }
}

/// The subject of the command.
struct Subject<'a> {
    /// The scenario or objects.
    path: &'a Path,
    /// The saved rules to compare.
    saved: Option<&'a Path>,
}

impl<'a> Subject<'a> {
    /// Reads the arguments: `--diff` takes no file if a program writes the rules, so the word after it is the path.
    fn of(args: &'a Args, has_program: bool) -> Result<Self, Failure> {
        let saved = args.diff.as_ref().map(Option::as_deref);
        match (args.path.as_deref(), saved, has_program) {
            (Some(path), None | Some(None), true) | (Some(path), None, false) => Ok(Self { path, saved: None }),
            (None, Some(Some(path)), true) => Ok(Self { path, saved: None }),
            (Some(path), Some(Some(saved)), false) => Ok(Self { path, saved: Some(saved) }),
            (Some(_), Some(Some(_)), true) => {
                let help = "Remove FILE to compare the program's rules with the generated ones, or the program to compare FILE.";
                Err(Failure::new(
                    "`--diff FILE` and a program (`--kube-proxy`, `--proxy-command`) are mutually exclusive",
                    help,
                ))
            }
            (Some(_), Some(None), false) => {
                let help = "Name a file with saved rules, or a program with --kube-proxy.";
                Err(Failure::new("--diff has nothing to compare", help))
            }
            (None, ..) => {
                let help = "Name a scenario or Kubernetes objects: `svclab rules PATH --diff FILE`.";
                Err(Failure::new("missing PATH: rules are generated from a scenario or objects", help))
            }
        }
    }
}

/// Warns if `--nfacct` has no effect.
fn warn_without_nfacct(args: &Args, proxy: &ProxyConfig, console: &Console) {
    let counts = proxy.mode == ProxyMode::Iptables
        && proxy.version.parse::<Profile>().is_ok_and(|profile| profile.counts_with_nfacct(proxy));
    let which = match proxy.mode {
        ProxyMode::Iptables => format!("kube-proxy {}", proxy.version),
        ProxyMode::Nftables => "nftables mode".to_owned(),
    };
    if args.nfacct && !counts {
        console.complain(format!("warning: --nfacct has no effect: {which} does not count with nfacct"));
    }
}

/// The input that rules are generated from.
#[derive(Clone)]
enum Input {
    /// Plain Kubernetes objects: the rules that kube-proxy writes.
    Objects(Box<Cluster>),
    /// A scenario: the rules that a lab installs.
    Scenario(Box<Scenario>),
}

impl Input {
    /// Takes the mode of the rules to compare where the input sets none.
    fn adopt(&mut self, mode: Option<ProxyMode>) {
        let proxy = match self {
            Self::Objects(cluster) => &mut cluster.proxy,
            Self::Scenario(scenario) if scenario.sets_mode => return,
            Self::Scenario(scenario) => &mut scenario.cluster.proxy,
        };
        proxy.mode = mode.unwrap_or(proxy.mode);
    }

    /// Leaves out rules that a scenario has instead of kube-proxy's: saved rules are compared with what kube-proxy would write for its
    /// objects, and an imported scenario has the saved ones themselves.
    fn leave_out_own_rules(&mut self, console: &Console) {
        let Self::Scenario(scenario) = self else { return };
        let before = scenario.rules.len();
        scenario.rules.retain(|own| own.install != Install::Instead);
        if scenario.rules.len() < before {
            console.note(
                "compared with what kube-proxy writes for the scenario's objects, not with its `install: instead`",
            );
        }
    }

    fn read(path: &Path, args: &Args, console: &Console) -> Result<Self, Failure> {
        let (path, text) = text_of(path);
        let text = text.map_err(|error| unreadable(&path, &error))?;
        if is_manifest(&text) {
            let proxy = ProxyConfig { nfacct: args.nfacct, ..proxy_config(args, console)? };
            let ObjectCluster { mut cluster, notes } = scenario::cluster(&text, &path, proxy)?;
            if !is_allocated(&cluster) {
                return Self::allocated(&text, &path, args, cluster.proxy, console);
            }
            show(&notes, console);
            if args.proxy_config.is_none() {
                assume_cidrs(&mut cluster, console);
            }
            doubts(&cluster).iter().filter(|_| !console.quiet).for_each(|doubt| console.complain(doubt));
            return Ok(Self::Objects(Box::new(cluster)));
        }
        if args.proxy_config.is_some() {
            let help = "Paste the configuration into the scenario, under `cluster:`, `proxy:`.";
            return Err(Failure::new("--proxy-config is for plain Kubernetes objects, and this is a scenario", help));
        }
        let mut scenario = scenario::parse_with(&text, &path, &args.inputs.reach().reader(&path), Tests::Optional)?;
        show(&scenario.notes, console);
        let proxy = &mut scenario.cluster.proxy;
        proxy.version = args.release.map_or(std::mem::take(&mut proxy.version), |version| version.to_string());
        proxy.mode = args.mode.map_or(proxy.mode, ProxyMode::from);
        proxy.nfacct = args.nfacct;
        Ok(Self::Scenario(Box::new(scenario)))
    }

    /// Returns objects as people write them, completed with what a cluster allocates, as all commands assume it.
    fn allocated(text: &str, path: &Path, args: &Args, proxy: ProxyConfig, console: &Console) -> Result<Self, Failure> {
        let mut cluster = scenario_from_objects(text, path, console)?.cluster;
        let given = args.proxy_config.is_some().then(|| proxy.cluster_cidrs.clone());
        let cluster_cidrs = given.unwrap_or_else(|| std::mem::take(&mut cluster.proxy.cluster_cidrs));
        cluster.proxy = ProxyConfig { cluster_cidrs, ..proxy };
        Ok(Self::Objects(Box::new(cluster)))
    }

    fn cluster(&self) -> &Cluster {
        match self {
            Self::Objects(cluster) => cluster,
            Self::Scenario(scenario) => &scenario.cluster,
        }
    }

    /// Sets the release of kube-proxy.
    fn with_release(&self, version: Profile) -> Self {
        let mut other = self.clone();
        let proxy = match &mut other {
            Self::Objects(cluster) => &mut cluster.proxy,
            Self::Scenario(scenario) => &mut scenario.cluster.proxy,
        };
        proxy.version = version.to_string();
        other
    }

    /// The generated rules of a node.
    fn write(&self, node: &str, family: Family) -> Result<Written, Failure> {
        let cluster = self.cluster();
        let Some(node) = cluster.node(node) else {
            return Err(Failure::new(format!("there is no node `{node}`"), "Choose another one."));
        };
        let rules = match self {
            Self::Objects(_) => Rules::generate(cluster, node, family).map_err(|error| impossible(&error))?,
            Self::Scenario(scenario) => scenario_rules(scenario, node, family)?,
        };
        Ok(Written::new(rules, family, cluster, node))
    }
}

/// Sets the clusterCIDR that all commands assume for objects without a configuration.
fn assume_cidrs(cluster: &mut Cluster, console: &Console) {
    cluster.proxy.cluster_cidrs = cluster_cidrs(cluster);
    let cidrs: Vec<String> = cluster.proxy.cluster_cidrs.iter().map(ToString::to_string).collect();
    if !console.quiet && !cidrs.is_empty() {
        let cidrs = cidrs.join(",");
        console.complain(format!(
            "note: clusterCIDR {cidrs} is assumed from the nodes' pod ranges; override it with --proxy-config"
        ));
    }
}

/// Returns the error for rules that the release cannot write.
pub(super) fn impossible(error: &dyn Error) -> Failure {
    Failure::new(error.to_string(), "Choose another release with `--release`, or another `--mode`.")
}

/// Returns the rules that a lab installs on a node of a scenario.
fn scenario_rules(scenario: &Scenario, node: &Node, family: Family) -> Result<Rules, Failure> {
    if node.internal_ip(family).is_none() {
        let message = format!("node {} has no {family} address, so a lab installs no {family} rules there", node.name);
        return Err(Failure::new(message, "Choose the other `--family`, or give the node such an address."));
    }
    let documents = documents::generate(scenario, &scenario.cluster).map_err(|error| impossible(&error))?;
    Ok(document_rules(&documents, node, family, scenario.cluster.proxy.mode))
}

/// Returns the rules of a node and family among documents, without other rules in the other language.
fn document_rules(documents: &[Document], node: &Node, family: Family, mode: ProxyMode) -> Rules {
    let netns = format!("node/{}", node.name);
    let is_meant = |one: &&Document| one.netns == netns && one.family == family && !one.is_other_tables();
    let of_node = documents.iter().filter(is_meant).max_by_key(|document| document.rules.mode() == mode);
    of_node.map_or_else(|| RuleSet::new(family).into(), |document| Rules::clone(&document.rules))
}

/// Returns kube-proxy's configuration: the file's, or the defaults; options take precedence. Warns of probable errors in it.
fn proxy_config(args: &Args, console: &Console) -> Result<ProxyConfig, Failure> {
    let defaults = ProxyConfig::default();
    let version = args.release.map_or(defaults.version.clone(), |version| version.to_string());
    let mode = args.mode.map(ProxyMode::from);
    let Some(file) = &args.proxy_config else {
        return Ok(ProxyConfig { version, mode: mode.unwrap_or(defaults.mode), ..defaults });
    };
    let read = |file: &Path| read_file(file).map_err(|error| unreadable(file, &error));
    let (config, notes) = scenario::proxy_config(&read(file)?, file, &version, mode)?;
    warn(&notes, console);
    Ok(config)
}

/// Returns the requested node. Warns if it is the first of several because none was named.
pub(super) fn node<'c>(wanted: Option<&str>, cluster: &'c Cluster, console: &Console) -> Result<&'c Node, Failure> {
    let names: Vec<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
    let Some(first) = cluster.nodes.first() else {
        return Err(Failure::new("there is no node", "Add an object of kind Node, with the addresses of the node."));
    };
    let Some(name) = wanted else {
        if names.len() > 1 {
            let count = names.len();
            console.note(format!("rules of node {}, the first of {count}; --node chooses another", first.name));
        }
        return Ok(first);
    };
    cluster.node(name).ok_or_else(|| {
        let choose = || format!("Choose one of these: {}.", names.join(", "));
        let help = did_you_mean(name, &names).unwrap_or_else(choose);
        Failure::new(format!("there is no node `{name}`"), help)
    })
}

fn family(args: &Args, has_address: impl Fn(&Family) -> bool) -> Family {
    args.family.map_or_else(|| if has_address(&Family::Ipv4) { Family::Ipv4 } else { Family::Ipv6 }, Family::from)
}

/// Prints notes on input without effect, with `-v`.
fn show(notes: &[Note], console: &Console) {
    if console.verbose > 0 {
        notes.iter().for_each(|note| console.complain(format!("{}: {}", note.span, note.message)));
    }
}

/// Returns notes on settings that plain objects do not contain.
fn doubts(cluster: &Cluster) -> Vec<String> {
    let mut doubts = Vec::new();
    let proxy = &cluster.proxy;
    if proxy.detect_local == DetectLocal::ClusterCidr && proxy.cluster_cidrs.is_empty() && !proxy.masquerade_all {
        doubts.push(
            "note: detectLocalMode is ClusterCIDR and no clusterCIDR is known, so there are no rules that masquerade \
             external traffic to cluster IPs; set it with --proxy-config"
                .to_owned(),
        );
    }
    doubts
}
