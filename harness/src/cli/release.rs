//! A release or mode of kube-proxy that overrides the input's.

use std::fmt;
use std::path::PathBuf;

use svclab_rules::cluster::ProxyMode;
use svclab_rules::profile::Profile;

use super::console::Console;
use super::failure::Failure;
use super::{text_of, warn};
use svclab::input::unreadable;
use svclab::scenario::{self, Install, Scenario};

/// A release and mode of kube-proxy, as given in options: `1.27:iptables`, `1.27` or `nftables`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Proxy {
    version: Option<Profile>,
    mode: Option<ProxyMode>,
}

/// Reads a release and mode.
pub(super) fn proxy(text: &str) -> Result<Proxy, String> {
    let mode = |word: &str| word.parse::<ProxyMode>().map_err(|error| error.to_string());
    let version = |word: &str| word.parse::<Profile>().map_err(|error| error.to_string());
    match text.split_once(':') {
        Some((release, word)) => Ok(Proxy { version: Some(version(release)?), mode: Some(mode(word)?) }),
        None => match (mode(text), version(text)) {
            (Ok(mode), _) => Ok(Proxy { version: None, mode: Some(mode) }),
            (Err(_), Ok(version)) => Ok(Proxy { version: Some(version), mode: None }),
            (Err(_), Err(unknown)) => Err(format!("{unknown}, and not a mode (`iptables` or `nftables`)")),
        },
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.version, self.mode) {
            (Some(version), Some(mode)) => write!(f, "{version}:{mode}"),
            (Some(version), None) => version.fmt(f),
            (None, mode) => mode.unwrap_or_default().fmt(f),
        }
    }
}

/// Returns a scenario with the kube-proxy of an option.
pub(super) fn with_proxy(
    mut scenario: Scenario,
    proxy: Option<Proxy>,
    config: Option<&PathBuf>,
    option: &str,
    console: &Console,
) -> Result<Scenario, Failure> {
    if proxy.is_none() && config.is_none() {
        return Ok(scenario);
    }
    if scenario.rules.iter().any(|rules| rules.install == Install::Instead) {
        let help = "Give Kubernetes objects, or a scenario without `install: instead`.";
        return Err(Failure::new(format!("`{option}` is for generated rules, and this input has its own"), help));
    }
    let own = &scenario.cluster.proxy;
    let version = proxy.and_then(|proxy| proxy.version).map_or(own.version.clone(), |version| version.to_string());
    let mode = proxy.and_then(|proxy| proxy.mode);
    if let Some(file) = config {
        let (name, text) = text_of(file);
        let text = text.map_err(|error| unreadable(&name, &error))?;
        let (read, notes) = scenario::proxy_config(&text, &name, &version, mode)?;
        warn(&notes, console);
        scenario.cluster.proxy = read;
    } else {
        scenario.cluster.proxy.version = version;
        scenario.cluster.proxy.mode = mode.unwrap_or(scenario.cluster.proxy.mode);
    }
    Ok(scenario)
}
