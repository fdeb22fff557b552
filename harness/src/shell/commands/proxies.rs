//! `stop`, `start` and `restart`: kube-proxies.

use crate::infer::AdHocChange;
use crate::shell::engine::Engine;
use crate::shell::reply::{Printed, View};

/// Stop kube-proxies: the rules of their nodes no longer follow changes.
#[derive(Debug, clap::Args)]
pub(in crate::shell) struct Stop {
    #[command(flatten)]
    proxies: Proxies,
}

/// Start kube-proxies that are stopped: they write all rules of their nodes.
#[derive(Debug, clap::Args)]
pub(in crate::shell) struct Start {
    #[command(flatten)]
    proxies: Proxies,
}

/// Stop kube-proxies and start them again: each rewrites all rules of its node.
#[derive(Debug, clap::Args)]
pub(in crate::shell) struct Restart {
    #[command(flatten)]
    proxies: Proxies,
}

#[derive(Debug, clap::Args)]
struct Proxies {
    /// The kube-proxies: `proxy` for all of them, or `proxy@NODE`.
    #[arg(value_name = "proxy[@NODE]", required = true)]
    names: Vec<String>,
}

impl Stop {
    pub(super) fn execute(self, engine: &mut Engine<'_>, _: &View) -> Result<Printed, Printed> {
        self.proxies.change("stop", "stopped", engine)
    }
}

impl Start {
    pub(super) fn execute(self, engine: &mut Engine<'_>, _: &View) -> Result<Printed, Printed> {
        self.proxies.change("start", "started", engine)
    }
}

impl Restart {
    pub(super) fn execute(self, engine: &mut Engine<'_>, _: &View) -> Result<Printed, Printed> {
        self.proxies.change("restart", "restarted", engine)
    }
}

impl Proxies {
    /// Makes the change of the scenario step with this name.
    fn change(self, step: &str, done: &str, engine: &mut Engine<'_>) -> Result<Printed, Printed> {
        let names = serde_json::Value::from(self.names.clone());
        engine.change(AdHocChange::Step(format!("{step}: {names}\n")))?;
        Ok(Printed::text(format!("{} {done}\n", self.names.join(", "))))
    }
}
