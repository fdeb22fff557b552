//! A flow that a command is about, and its path by the rules.

use crate::explain::{self, Explanation};
use crate::infer::{AdHocProbe, AdHocScenario};
use crate::shell::engine::Engine;
use crate::shell::reply::Printed;

/// What a flow is besides its ends.
#[derive(Debug, clap::Args)]
pub(super) struct Flow {
    /// tcp, udp or sctp [default: the protocol of the service's port, else tcp]
    #[arg(long)]
    protocol: Option<String>,
    /// ipv4 or ipv6 [default: the first that both ends have]
    #[arg(long)]
    family: Option<String>,
    /// The source port [default: 33000]
    #[arg(long, value_name = "PORT")]
    source_port: Option<u16>,
    /// The Nth path, where rules choose at random
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) path: usize,
}

impl Flow {
    /// Explains the flow in the present state of the lab, by a packet that is really sent or not.
    ///
    /// # Errors
    ///
    /// What is wrong with the flow or with the number of the path, or the failure of the lab.
    pub(super) fn explain(
        self,
        (from, to): (String, String),
        is_live: bool,
        engine: &mut Engine<'_>,
    ) -> Result<(AdHocScenario, Explanation), Printed> {
        let Self { protocol, family, source_port, path } = self;
        let ad_hoc = engine.subject.with_probe(AdHocProbe { from, to, protocol, family, source_port, step: 0 })?;
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
