//! The flow that a command is about, and its predicted path.

use crate::explain::{self, Explanation};
use crate::infer::{AdHocScenario, FlowArgs};
use crate::shell::engine::Engine;
use crate::shell::reply::Printed;

/// The properties of a flow besides its ends, and the number of the path.
#[derive(Debug, clap::Args)]
pub(super) struct Flow {
    #[command(flatten)]
    flow: FlowArgs,
    /// The Nth path, if rules choose at random
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) path: usize,
}

impl Flow {
    /// Explains the flow in the present state of the lab, with or without sending a packet.
    ///
    /// # Errors
    ///
    /// If the flow or the number of the path is invalid, or the lab fails.
    pub(super) fn explain(
        self,
        (from, to): (String, String),
        is_live: bool,
        engine: &mut Engine<'_>,
    ) -> Result<(AdHocScenario, Explanation), Printed> {
        let Self { flow, path } = self;
        let ad_hoc = engine.subject.with_probe(flow.probe(from, to, 0))?;
        let step = ad_hoc.asked.step;
        let explanation = engine.in_session(|session| {
            let documents = session.documents().to_vec();
            explain::explain_in(&ad_hoc, session.prober(), &documents, (step, path), is_live)
        })?;
        let paths = explanation.paths.len();
        if !(1..=paths.max(1)).contains(&path) {
            let help = format!("Use a number from 1 to {paths}.");
            return Err(Printed::wrong(format_args!("there is no path {path}"), &help));
        }
        Ok((ad_hoc, explanation))
    }
}
