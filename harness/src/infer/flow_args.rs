//! A flow as command lines have it.

use super::ad_hoc::AdHocProbe;
use crate::text::within;

/// What a flow is besides its ends.
#[derive(Debug, Clone, clap::Args)]
pub struct FlowArgs {
    /// tcp, udp or sctp [default: the protocol of the service's port, else tcp]
    #[arg(long)]
    protocol: Option<String>,
    /// ipv4 or ipv6 [default: one that both ends have]
    #[arg(long)]
    family: Option<String>,
    /// The source port [default: chosen, 33000 or higher]
    #[arg(long, value_name = "PORT", value_parser = port)]
    source_port: Option<u16>,
}

impl FlowArgs {
    /// The probe of such a flow after this many changes of the cluster.
    pub fn probe(self, from: impl Into<String>, to: impl Into<String>, step: usize) -> AdHocProbe {
        let Self { protocol, family, source_port } = self;
        AdHocProbe { from: from.into(), to: to.into(), protocol, family, source_port, step }
    }
}

fn port(text: &str) -> Result<u16, String> {
    within(text, 1..=u16::MAX)
}
