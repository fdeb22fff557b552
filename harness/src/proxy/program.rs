//! A program that writes a node's rules from the Kubernetes API, and how it is started.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use svclab_rules::profile::Profile;

use super::error::ProgramError;
use super::process;
use crate::lab::programs::{self, OutputError};
use crate::text::{path_text, printable, shell_word, shortened};

/// Placeholders for files and names in the command line of a program that is not a kube-proxy.
const PLACEHOLDERS: [&str; 3] = ["{kubeconfig}", "{config}", "{node}"];

/// A program that writes a node's rules from the Kubernetes API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    launch: Launch,
    /// Its release; `None` if it is not a kube-proxy.
    release: Option<String>,
}

/// The files of a program, and its node's name in its configuration.
pub(super) struct Files {
    pub(super) kubeconfig: String,
    pub(super) configuration: String,
    pub(super) node: String,
}

/// How a program is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Launch {
    /// Started like a kube-proxy, with `--config`.
    KubeProxy(PathBuf),
    /// Started with these words, in which `{kubeconfig}`, `{config}` and `{node}` are replaced.
    Command(Vec<String>),
}

impl Program {
    /// A kube-proxy, which is run to print its release within a time limit.
    ///
    /// # Errors
    ///
    /// If the kernel cannot execute the file, or it prints no known release with `--version`.
    pub fn kube_proxy(file: &Path, limit: Duration) -> Result<Self, ProgramError> {
        let file = absolute(file).unwrap_or_else(|_| file.to_owned());
        programs::executable(&file).map_err(|source| ProgramError::NotExecutable { file: file.clone(), source })?;
        let asked = process::outside_of_labs(&[file.as_os_str(), OsStr::new("--version")]);
        let said = asked.map_err(|error| OutputError::Failed(error.to_string()));
        let said =
            said.and_then(|mut call| programs::said_within(&mut call, limit)).map_err(|unsaid| match unsaid {
                OutputError::TooLong => ProgramError::Slow { file: file.clone(), limit },
                OutputError::Failed(why) => ProgramError::NoRelease { file: file.clone(), why },
            })?;
        // `Kubernetes v1.36.2`
        let release = said.split_whitespace().find_map(|word| word.strip_prefix('v')).unwrap_or_default().to_owned();
        match release.parse::<Profile>() {
            Ok(_) => Ok(Self { launch: Launch::KubeProxy(file), release: Some(release) }),
            Err(_) => {
                let first = said.trim().lines().next().unwrap_or("nothing");
                Err(ProgramError::UnknownRelease { file, said: shortened(first).into_owned() })
            }
        }
    }

    /// Another program, given by its command line: words separated by spaces.
    ///
    /// # Errors
    ///
    /// If the line has no word, has an unknown placeholder, or names a program that the kernel cannot execute.
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
    pub(super) fn words(&self, files: &Files) -> Vec<OsString> {
        match &self.launch {
            Launch::KubeProxy(file) => vec![file.into(), format!("--config={}", files.configuration).into()],
            Launch::Command(words) => {
                let given = PLACEHOLDERS.into_iter().zip([&files.kubeconfig, &files.configuration, &files.node]);
                let filled =
                    |word: &String| given.clone().fold(word.clone(), |word, (name, value)| word.replace(name, value));
                words.iter().map(|word| filled(word).into()).collect()
            }
        }
    }

    /// The option that names it on svclab's command line, quoted for a shell.
    pub(super) fn option(&self, name: Option<&str>) -> String {
        let name = name.map(|name| format!("{name}=")).unwrap_or_default();
        match &self.launch {
            Launch::KubeProxy(file) => format!("--kube-proxy={}", shell_word(&format!("{name}{}", path_text(file)))),
            Launch::Command(words) => format!("--proxy-command={}", shell_word(&words.join(" "))),
        }
    }

    /// Its file, or its command line.
    pub(crate) fn line(&self) -> String {
        match &self.launch {
            Launch::KubeProxy(file) => printable(file).to_string(),
            Launch::Command(words) => words.join(" "),
        }
    }

    /// Its release, if it is a kube-proxy.
    pub(crate) fn release(&self) -> Option<&str> {
        self.release.as_deref()
    }

    /// Whether it has the signals of a kube-proxy: `/healthz` and `/metrics`.
    pub(super) fn has_signals(&self) -> bool {
        matches!(self.launch, Launch::KubeProxy(_))
    }
}

/// Finds a lower-case word in braces that is not a placeholder, such as a misspelt one; other braces are left to the program.
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
            Launch::KubeProxy(file) => write!(f, "{}", printable(file))?,
            Launch::Command(words) => f.write_str(words.first().map_or("", String::as_str))?,
        }
        self.release.as_ref().map_or(Ok(()), |release| write!(f, " ({release})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_filled_in() {
        let program = Program::command("sh -c {config}:{kubeconfig} {node} ${1} {}").expect("there is a shell");
        let [kubeconfig, configuration, node] = ["/run/k", "/run/c", "worker"].map(str::to_owned);
        let words = program.words(&Files { kubeconfig, configuration, node });
        assert_eq!(words[1..], ["-c", "/run/c:/run/k", "worker", "${1}", "{}"]);
        assert!(words[0].to_string_lossy().ends_with("/sh"), "{words:?}");
    }

    #[test]
    fn an_unknown_placeholder_is_an_error() {
        let error = Program::command("sh {config} --node={nodes}").expect_err("a misspelt placeholder");
        assert_eq!(error.to_string(), "`{nodes}` is not a placeholder");
    }
}
