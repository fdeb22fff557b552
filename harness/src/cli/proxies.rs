//! Options that put a real kube-proxy, or another program, on nodes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Exit;
use super::console::Console;
use super::duration::duration;
use super::failure::Failure;
use svclab::proxy::{self, NotApplicable, Program, ProgramError, Programs};
use svclab::scenario::Scenario;
use svclab::text::printable;

/// The options that run a program on nodes: it has its own release, and needs a lab.
pub(super) const PROGRAMS: [&str; 2] = [KUBE_PROXY, "proxy_command"];
/// The option for programs with their own release.
pub(super) const KUBE_PROXY: &str = "kube_proxy";

/// Options of commands whose rules a program can write.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ProxyArgs {
    /// Run this kube-proxy on all nodes, instead of generating their rules: it watches an API server with the scenario's objects.
    /// Scenarios for another release are skipped as not applicable.
    ///
    /// NAME=PATH sets the program of nodes with `proxy: {program: NAME}`. Repeat the option for several programs.
    #[arg(long, value_name = "[NAME=]PATH")]
    kube_proxy: Vec<PathBuf>,
    /// Like `--kube-proxy`, for any program that writes rules: its command line, words separated by spaces, in which `{kubeconfig}`,
    /// `{config}` (a KubeProxyConfiguration) and `{node}` are replaced.
    #[arg(long, value_name = "COMMAND")]
    proxy_command: Option<String>,
    /// Timeout for each sync of a program, and for its reply to `--version`
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    sync_timeout: Duration,
}

impl ProxyArgs {
    /// Returns the programs, if any; each kube-proxy is run to get its release.
    pub(super) fn programs(&self) -> Result<Option<Programs>, Failure> {
        let mut default =
            self.proxy_command.as_deref().map(Program::command).transpose().map_err(|error| unusable(&error))?;
        let mut named = BTreeMap::new();
        for given in &self.kube_proxy {
            let (name, file) = name_and_file(given);
            let program = Program::kube_proxy(&file, self.sync_timeout).map_err(|error| unusable(&error))?;
            let before = match &name {
                Some(name) => named.insert(name.clone(), program),
                None => default.replace(program),
            };
            if before.is_some() {
                let which = name.map_or("without a name".to_owned(), |name| format!("with the name `{name}`"));
                let help = "Give each its own name: --kube-proxy old=PATH --kube-proxy new=PATH.";
                return Err(Failure::new(format!("there are two programs {which}"), help));
            }
        }
        let is_none = default.is_none() && named.is_empty();
        Ok((!is_none).then(|| Programs::new(default, named, self.sync_timeout)))
    }
}

/// Splits the option into a program's name, if any, and its file. A name has ASCII letters, digits, `-`, `_` and `.`.
fn name_and_file(given: &Path) -> (Option<String>, PathBuf) {
    let named = given.to_str().and_then(|text| text.split_once('='));
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
    };
    match named.filter(|(name, _)| is_name(name)) {
        Some((name, file)) => (Some(name.to_owned()), file.into()),
        None => (None, given.to_owned()),
    }
}

fn unusable(error: &ProgramError) -> Failure {
    Failure::new(error.to_string(), error.help())
}

/// Returns the scenarios that apply, with or without programs. The others are reported as not applicable.
pub(super) fn fitting<'s>(
    scenarios: &'s [Scenario],
    programs: Option<&Programs>,
    console: &Console,
) -> Result<Cow<'s, [Scenario]>, Exit> {
    let (fitting, others) = proxy::partition(programs, scenarios);
    for (scenario, why) in &others {
        console.complain(format!("{}: not applicable: {why}", printable(&scenario.file)));
    }
    let fixes: BTreeSet<String> = others.iter().map(|(_, why)| why.help()).collect();
    fixes.iter().for_each(|fix| console.complain(format!("help: {fix}")));
    if fitting.is_empty() { Err(Exit::Input) } else { Ok(fitting) }
}

/// Returns the failure for a scenario that programs cannot run.
pub(super) fn not_applicable(why: &NotApplicable) -> Failure {
    Failure::new(why.to_string(), why.help())
}
