//! Shell completion with names from the scenarios on the command line.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use svclab_rules::cluster::{Cluster, ObjectName, Service};

use svclab::infer;
use svclab::input::{self, Reach};
use svclab::scenario::{self, Scenario, Tests, Vantage};
use svclab::shell::{Running, running};

/// The environment variable by which a shell requests completions: its value is the shell's name.
pub(super) const VARIABLE: &str = "_SVCLAB_COMPLETE";

/// A variable that only bash sets when it requests completions: [`VARIABLE`] is already removed when names are looked up.
const OF_BASH: &str = "_CLAP_COMPLETE_COMP_TYPE";

/// Maximum number of scenario files that are read, because the shell waits for the result.
const MAX_FILES: usize = 200;

/// Completes scenario files and folders.
pub(super) fn scenario_files() -> ArgValueCompleter {
    let is_yaml = |path: &Path| path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    let paths = PathCompleter::any().filter(move |path| path.is_dir() || is_yaml(path));
    ArgValueCompleter::new(move |current: &OsStr| paths.complete(current))
}

/// Completes names of tests.
pub(super) fn tests() -> ArgValueCompleter {
    names(|scenario| scenario.tests.iter().map(|test| test.name.clone()).collect())
}

/// Completes tags of tests.
pub(super) fn tags() -> ArgValueCompleter {
    names(|scenario| scenario.tests.iter().flat_map(|test| &test.tags).map(|tag| tag.as_str().to_owned()).collect())
}

/// Completes senders in a cluster.
pub(super) fn senders() -> ArgValueCompleter {
    names(|scenario| {
        let Cluster { nodes, pods, .. } = &scenario.cluster;
        let pods = pods.iter().map(|pod| Vantage::Pod(pod.name.clone()).to_string());
        let of_node = |name: &String| [format!("node/{name}"), format!("localhost@{name}")];
        let nodes = nodes.iter().flat_map(|node| of_node(&node.name));
        let hosts = scenario.hosts.iter().map(|host| format!("host/{}", host.name));
        pods.chain(nodes).chain(hosts).collect()
    })
}

/// Completes service addresses, for each node if there are several.
pub(super) fn destinations() -> ArgValueCompleter {
    names(|scenario| {
        let cluster = &scenario.cluster;
        cluster.services.iter().flat_map(|service| addresses(service, cluster)).collect()
    })
}

/// Completes labs of running shells.
pub(super) fn labs() -> ArgValueCompleter {
    complete_running_labs(|_| Vec::new())
}

/// Completes labs of running shells, and the first word of a line in them: places and commands.
pub(super) fn labs_and_places() -> ArgValueCompleter {
    complete_running_labs(Running::first_words)
}

fn complete_running_labs(also: fn(&Running) -> Vec<String>) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let is_bash = env::var_os(OF_BASH).is_some();
        let names = |one: &Running| also(one).into_iter().chain([one.lab.clone()]).collect::<Vec<_>>();
        matching(current, running().unwrap_or_default().iter().flat_map(names).collect(), is_bash)
    })
}

fn addresses(service: &Service, cluster: &Cluster) -> Vec<String> {
    let ObjectName { namespace, name } = &service.name;
    let name = if namespace == "default" { name.clone() } else { format!("{namespace}/{name}") };
    let mut all = Vec::new();
    for port in &service.ports {
        let number = port.port;
        all.push(format!("service/{name}:{number}"));
        if port.node_port.is_some() {
            all.extend(cluster.nodes.iter().map(|node| format!("nodeport/{name}:{number}@{}", node.name)));
        }
        if !service.load_balancer.is_empty() {
            all.push(format!("loadbalancer/{name}:{number}"));
        }
        if !service.external_ips.is_empty() {
            all.push(format!("externalip/{name}:{number}"));
        }
    }
    all
}

/// Returns a completer for names from the scenarios on the command line.
fn names(of: fn(&Scenario) -> Vec<String>) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let is_bash = env::var_os(OF_BASH).is_some();
        matching(current, scenarios().iter().flat_map(of).collect(), is_bash)
    })
}

/// Returns the names that start with a word, without duplicates. Names for bash are quoted, because it inserts them into the command line
/// unchanged.
fn matching(current: &OsStr, mut names: Vec<String>, is_bash: bool) -> Vec<CompletionCandidate> {
    let typed = current.to_string_lossy();
    let typed = if is_bash { typed.replace('\\', "") } else { typed.into_owned() };
    names.retain(|name| name.starts_with(&typed));
    names.sort();
    names.dedup();
    names.into_iter().map(|name| CompletionCandidate::new(if is_bash { quoted(&name) } else { name })).collect()
}

/// Quotes a word for bash.
fn quoted(name: &str) -> String {
    let mut word = String::new();
    for letter in name.chars() {
        if !letter.is_alphanumeric() && !"_-./:@,+".contains(letter) {
            word.push('\\');
        }
        word.push(letter);
    }
    word
}

/// Returns the scenarios named on the command line, as far as they can be read.
fn scenarios() -> Vec<Scenario> {
    let words = env::args_os().skip_while(|word| word != "--").skip(1).map(PathBuf::from);
    let paths: Vec<PathBuf> = words.filter(|path| path.exists()).collect();
    // Each path is read separately: a word that is not an input does not affect the others.
    let found = paths.iter().filter_map(|path| input::find(std::slice::from_ref(path)).ok());
    let files = found.flat_map(|found| found.files).filter(|file| file.is_file()).take(MAX_FILES);
    files.filter_map(|file| scenario_in(&file)).collect()
}

/// Returns the scenario in a file, or one made of the objects in it.
fn scenario_in(file: &Path) -> Option<Scenario> {
    let text = input::read_argument(file).ok()?;
    if input::is_manifest(&text) {
        return infer::from_objects(&text, file).ok().map(|assumed| assumed.scenario);
    }
    scenario::load_within(file, Reach::Repository, Tests::Optional).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_gets_words_and_other_shells_get_names() {
        let names = || vec!["the source is kept".to_owned(), "$(rm x)".to_owned(), "the source is kept".to_owned()];
        let values = |current: &str, is_bash| {
            let found = matching(OsStr::new(current), names(), is_bash);
            found.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(values("", true), ["\\$\\(rm\\ x\\)", "the\\ source\\ is\\ kept"]);
        assert_eq!(values("the\\ so", true), ["the\\ source\\ is\\ kept"]);
        assert_eq!(values("the so", false), ["the source is kept"]);
    }
}
