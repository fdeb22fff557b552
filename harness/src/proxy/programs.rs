//! The programs that the command line puts on nodes, and the scenarios that they can carry out.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use svclab_rules::cluster::{ConntrackCleanup, ProxyMode};
use svclab_rules::profile::Profile;

use super::error::{NotApplicable, ProgramError};
use super::process;
use crate::lab::programs;
use crate::scenario::{Install, Place, Scenario};

/// The time that a kube-proxy may take to print its release.
const VERSION_TIME: Duration = Duration::from_secs(20);

/// What a program that is no kube-proxy is given: the words of its command line that stand for files and names.
const PLACEHOLDERS: [&str; 3] = ["{kubeconfig}", "{config}", "{node}"];

/// A program that writes a node's rules from Kubernetes' API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    launch: Launch,
    /// Its release; `None` where only a kube-proxy would have one.
    release: Option<String>,
}

/// How a program is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Launch {
    /// As a kube-proxy is, with `--config`.
    KubeProxy(PathBuf),
    /// With these words, in which `{kubeconfig}`, `{config}` and `{node}` are replaced.
    Command(Vec<String>),
}

impl Program {
    /// A kube-proxy, which is asked for its release.
    ///
    /// # Errors
    ///
    /// A file that the kernel does not execute, or that prints no known release with `--version`.
    pub fn kube_proxy(file: &Path) -> Result<Self, ProgramError> {
        let file = absolute(file).unwrap_or_else(|_| file.to_owned());
        programs::executable(&file).map_err(|source| ProgramError::NotExecutable { file: file.clone(), source })?;
        let said = process::outside_of_labs(&[file.as_os_str(), OsStr::new("--version")])
            .map_err(|error| error.to_string())
            .and_then(|mut call| programs::said_within(&mut call, VERSION_TIME))
            .map_err(|why| ProgramError::NoRelease { file: file.clone(), why })?;
        // `Kubernetes v1.36.2`
        let release = said.split_whitespace().find_map(|word| word.strip_prefix('v')).unwrap_or_default().to_owned();
        match release.parse::<Profile>() {
            Ok(_) => Ok(Self { launch: Launch::KubeProxy(file), release: Some(release) }),
            Err(_) => Err(ProgramError::UnknownRelease { file, said: said.trim().to_owned() }),
        }
    }

    /// Another program, by its command line: words with blanks between them.
    ///
    /// # Errors
    ///
    /// A line without a word, with an unknown placeholder, or whose program the kernel does not execute.
    pub fn command(line: &str) -> Result<Self, ProgramError> {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let first = words.first_mut().ok_or(ProgramError::NoCommand)?;
        let found = if first.contains('/') { absolute(&*first).ok() } else { programs::find(first) };
        let file = found.unwrap_or_else(|| PathBuf::from(&*first));
        programs::executable(&file).map_err(|source| ProgramError::NotExecutable { file: file.clone(), source })?;
        *first = file.to_string_lossy().into_owned();
        if let Some(unknown) = words.iter().find_map(|word| unknown_placeholder(word)) {
            return Err(ProgramError::UnknownPlaceholder(unknown.to_owned()));
        }
        Ok(Self { launch: Launch::Command(words), release: None })
    }

    /// The command line for a node.
    pub(super) fn words(&self, kubeconfig: &str, config: &str, node: &str) -> Vec<std::ffi::OsString> {
        match &self.launch {
            Launch::KubeProxy(file) => vec![file.into(), format!("--config={config}").into()],
            Launch::Command(words) => {
                let given = PLACEHOLDERS.into_iter().zip([kubeconfig, config, node]);
                let filled =
                    |word: &String| given.clone().fold(word.clone(), |word, (name, value)| word.replace(name, value));
                words.iter().map(|word| filled(word).into()).collect()
            }
        }
    }

    /// Its release, if it is a kube-proxy.
    pub(super) fn release(&self) -> Option<&str> {
        self.release.as_deref()
    }

    /// Whether it has the signals of a kube-proxy: `/healthz` and `/metrics`.
    pub(super) fn has_signals(&self) -> bool {
        matches!(self.launch, Launch::KubeProxy(_))
    }
}

/// A lower-case word in braces that is no placeholder, such as one that is misspelt; other braces are the program's.
fn unknown_placeholder(word: &str) -> Option<&str> {
    let (_, rest) = word.split_once('{')?;
    let (name, after) = rest.split_once('}')?;
    let given = &word[word.len() - rest.len() - 1..word.len() - after.len()];
    let is_name = !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphabetic());
    if is_name && !PLACEHOLDERS.contains(&given) { Some(given) } else { unknown_placeholder(after) }
}

/// The program's file and release: `/tmp/kube-proxy (1.36.0)`.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.launch {
            Launch::KubeProxy(file) => write!(f, "{}", crate::text::printable(file))?,
            Launch::Command(words) => f.write_str(words.first().map_or("", String::as_str))?,
        }
        self.release.as_ref().map_or(Ok(()), |release| write!(f, " ({release})"))
    }
}

/// The programs of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Programs {
    /// That of nodes for which the scenario names none.
    default: Option<Program>,
    /// Those that scenarios may name.
    named: BTreeMap<String, Program>,
    /// The time that a program may take to write its rules.
    limit: Duration,
}

impl fmt::Display for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.named.iter().map(|(name, program)| format!("{name}={program}"));
        let all: Vec<String> = self.default.iter().map(ToString::to_string).chain(named).collect();
        f.write_str(&all.join(", "))
    }
}

impl Programs {
    /// A program for all nodes for which scenarios name none, those that they may name, and the time that each may take to write the
    /// rules of new objects.
    pub fn new(default: Option<Program>, named: BTreeMap<String, Program>, limit: Duration) -> Self {
        Self { default, named, limit }
    }

    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// The program of a node.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub(super) fn of(&self, scenario: &Scenario, node: &str) -> Result<&Program, NotApplicable> {
        let name = scenario.programs.get(node);
        let found = name.map_or(self.default.as_ref(), |name| self.named.get(name));
        found.ok_or_else(|| NotApplicable::NoProgram { node: node.to_owned(), name: name.cloned() })
    }

    /// The scenario for these programs: with their release, which promises and predictions depend on. Where nodes have programs of
    /// several releases, it is that of the first node.
    ///
    /// # Errors
    ///
    /// The reason why they cannot carry it out.
    pub fn fit(&self, scenario: &Scenario) -> Result<Scenario, NotApplicable> {
        let instead = scenario.rules.iter().filter(|rules| rules.install == Install::Instead);
        let mut replaced = instead.filter_map(|rules| match &rules.place {
            Place::Node(node) => Some(node.clone()),
            Place::Pod(_) => None,
        });
        if let Some(node) = replaced.next() {
            return Err(NotApplicable::OwnRules(node));
        }
        if scenario.states().any(|state| state.proxy.conntrack_cleanup != ConntrackCleanup::OfVersion) {
            return Err(NotApplicable::Cleanup);
        }
        let nodes = &scenario.cluster.nodes;
        let programs = nodes.iter().map(|node| self.of(scenario, &node.name)).collect::<Result<Vec<_>, _>>()?;
        let mut releases = programs.iter().filter_map(|program| program.release.as_deref());
        releases.clone().try_for_each(|release| applies(scenario, release))?;
        let mut scenario = scenario.clone();
        if let Some(release) = releases.next() {
            scenario.states_mut().for_each(|state| release.clone_into(&mut state.proxy.version));
        }
        Ok(scenario)
    }
}

/// Whether a scenario is about a release.
fn applies(scenario: &Scenario, release: &str) -> Result<(), NotApplicable> {
    let proxy = &scenario.cluster.proxy;
    let release = || release.to_owned();
    if scenario.names_release && !is_meant(&proxy.version, &release()) {
        return Err(NotApplicable::Release { wanted: proxy.version.clone(), release: release() });
    }
    if proxy.mode == ProxyMode::Nftables && !release().parse::<Profile>().is_ok_and(Profile::nftables) {
        return Err(NotApplicable::Mode { mode: proxy.mode, release: release() });
    }
    Ok(())
}

/// Whether a release is the one that is named: a minor release without a patch stands for all of its patches.
fn is_meant(named: &str, release: &str) -> bool {
    let parts = |text: &str| -> Vec<String> {
        let release = text.parse::<Profile>().map(|profile| profile.to_string()).unwrap_or_default();
        release.split('.').map(str::to_owned).collect()
    };
    parts(release).starts_with(&parts(named))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1.36", "1.36.2", true)]
    #[case("1.36.2", "1.36.2", true)]
    #[case("1.36.1", "1.36.2", false)]
    #[case("1.3", "1.36.2", false)]
    #[case("1.35", "1.36.2", false)]
    #[case("v1.30.2+k3s1", "1.30.2-eks-1a2b3c", true)]
    fn a_scenario_names_releases(#[case] named: &str, #[case] release: &str, #[case] expected: bool) {
        assert_eq!(is_meant(named, release), expected);
    }

    #[test]
    fn words_are_filled_in() {
        let program = Program::command("sh -c {config}:{kubeconfig} {node} ${1} {}").expect("there is a shell");
        let words = program.words("/run/k", "/run/c", "worker");
        assert_eq!(words[1..], ["-c", "/run/c:/run/k", "worker", "${1}", "{}"]);
        assert!(words[0].to_string_lossy().ends_with("/sh"), "{words:?}");
    }

    #[test]
    fn an_unknown_placeholder_is_an_error() {
        let error = Program::command("sh {config} --node={nodes}").expect_err("a misspelt placeholder");
        assert_eq!(error.to_string(), "`{nodes}` is no placeholder");
    }
}
