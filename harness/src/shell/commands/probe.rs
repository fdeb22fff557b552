//! `probe`: one packet, followed through the lab.

use crate::infer::FlowArgs;
use crate::observation::{Observation, ObservedOutcome};
use crate::report::{console, probe_words};
use crate::run::RunError;
use crate::shell::engine::Engine;
use crate::shell::reply::{Printed, View};

/// Send a packet like a scenario's probe, and show its outcome, source, reply and path.
///
/// The exit code is 1 if it is not delivered.
#[derive(Debug, clap::Args)]
pub(in crate::shell) struct Probe {
    /// The sender: `pod/NAME`, `node/NAME`, `localhost@NODE` or `host/NAME`.
    #[arg(value_name = "FROM")]
    from: String,
    /// The destination: `service/NAME:PORT`, `nodeport/NAME:PORT@NODE`, `ADDRESS:PORT`, ...
    #[arg(value_name = "TO")]
    to: String,
    #[command(flatten)]
    flow: FlowArgs,
}

impl Probe {
    pub(super) fn execute(self, engine: &mut Engine<'_>, view: &View) -> Result<Printed, Printed> {
        let Self { from, to, flow } = self;
        let probes = engine.subject.with_probe(flow.probe(from, to, 0))?.probes;
        let sent = engine.in_session(|session| {
            let send = |probe| session.prober().send(probe, 1).map_err(RunError::Prober);
            probes.iter().map(send).collect::<Result<Vec<_>, _>>()
        })?;
        let page = |(probe, observation)| console::observed(&probe_words(probe), observation, view.settings);
        let text = probes.iter().zip(&sent).map(page).collect();
        Ok(Printed { text, code: u8::from(!sent.iter().all(is_delivered)), ..Printed::default() })
    }
}

fn is_delivered(observation: &Observation) -> bool {
    matches!(observation, Observation::Flow(flow) if matches!(flow.outcome, ObservedOutcome::Delivered(_)))
}
