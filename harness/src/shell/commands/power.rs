//! `down` and `up`: nodes that are turned off and on.

use crate::infer::AdHocChange;
use crate::shell::engine::Engine;
use crate::shell::reply::{Printed, View};

/// Turn nodes off.
///
/// Programs on them and in their pods are killed, and their kube-proxies are stopped. No controller removes their pods from endpoints: use
/// `apply` for that. (`link node/NAME down` takes only the link down.)
#[derive(Debug, clap::Args)]
pub(in crate::shell) struct Down {
    #[command(flatten)]
    nodes: Nodes,
}

/// Turn nodes on again: they have lost all connections and client lists, and their kube-proxies start.
#[derive(Debug, clap::Args)]
pub(in crate::shell) struct Up {
    #[command(flatten)]
    nodes: Nodes,
}

#[derive(Debug, clap::Args)]
struct Nodes {
    /// The nodes: `node/NAME`.
    #[arg(value_name = "node/NAME", required = true)]
    names: Vec<String>,
}

impl Down {
    pub(super) fn execute(self, engine: &mut Engine<'_>, _: &View) -> Result<Printed, Printed> {
        self.nodes.become_so("down", "off", engine)
    }
}

impl Up {
    pub(super) fn execute(self, engine: &mut Engine<'_>, _: &View) -> Result<Printed, Printed> {
        self.nodes.become_so("up", "on", engine)
    }
}

impl Nodes {
    /// Makes the change of the scenario step with this name.
    fn become_so(self, step: &str, state: &str, engine: &mut Engine<'_>) -> Result<Printed, Printed> {
        let whole = |name: &String| if name.contains('/') { name.clone() } else { format!("node/{name}") };
        let names: Vec<String> = self.names.iter().map(whole).collect();
        let (ended, _) =
            engine.change(AdHocChange::Step(format!("{step}: {}\n", serde_json::Value::from(names.clone()))))?;
        Ok(Printed::text(format!("{} {state}{ended}\n", names.join(", "))))
    }
}
