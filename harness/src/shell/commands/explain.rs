//! `explain`: the path of one packet, rule by rule.

use clap::ValueEnum;

use crate::explain;
use crate::infer::AdHocProbe;
use crate::shell::engine::Engine;
use crate::shell::reply::{Printed, View};

/// Explain the path of one packet and its reply, rule by rule.
///
/// The options are those of `svclab explain`. The exit code is 1 where the kernel disagrees.
#[derive(Debug, clap::Args)]
pub(in crate::shell) struct Explain {
    /// The sender: `pod/NAME`, `node/NAME`, `localhost@NODE` or `host/NAME`.
    #[arg(value_name = "FROM", required_unless_present = "from_option")]
    from: Option<String>,
    /// The destination: `service/NAME:PORT`, `nodeport/NAME:PORT@NODE`, `ADDRESS:PORT`, ...
    #[arg(value_name = "TO", required_unless_present = "to_option")]
    to: Option<String>,
    /// The sender, as `svclab explain` has it.
    #[arg(id = "from_option", long = "from", value_name = "FROM", conflicts_with = "from", hide = true)]
    from_option: Option<String>,
    /// The destination, as `svclab explain` has it.
    #[arg(id = "to_option", long = "to", value_name = "TO", conflicts_with = "to", hide = true)]
    to_option: Option<String>,
    /// tcp, udp or sctp [default: the protocol of the service's port, else tcp]
    #[arg(long)]
    protocol: Option<String>,
    /// ipv4 or ipv6 [default: the first that both ends have]
    #[arg(long)]
    family: Option<String>,
    /// The source port [default: 33000]
    #[arg(long, value_name = "PORT")]
    source_port: Option<u16>,
    /// Explain the Nth path, where rules choose at random
    #[arg(long, value_name = "N", default_value = "1", conflicts_with = "live")]
    path: usize,
    /// Also send the packet, trace the rules that the kernel matches, and mark where they diverge from the prediction.
    #[arg(long)]
    live: bool,
    /// The output format.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Mermaid,
    Svg,
}

impl Explain {
    pub(super) fn carry_out(self, engine: &mut Engine<'_>, view: &View) -> Result<Printed, Printed> {
        let Self { protocol, family, source_port, path, live, format, .. } = self;
        let from = self.from.or(self.from_option).unwrap_or_default();
        let to = self.to.or(self.to_option).unwrap_or_default();
        let ad_hoc = engine.subject.with_probe(AdHocProbe { from, to, protocol, family, source_port, step: 0 })?;
        let step = ad_hoc.asked.step;
        let explanation = engine.in_session(|session| {
            let documents = session.documents().to_vec();
            explain::explain_in(&ad_hoc, session.prober(), &documents, (step, path), live)
        })?;
        let paths = explanation.paths.len();
        if !(1..=paths.max(1)).contains(&path) {
            return Err(Printed::wrong(
                format_args!("there is no path {path}"),
                &format!("Use a number from 1 to {paths}."),
            ));
        }
        let text = match format {
            Format::Text => explain::page(&explanation, view.settings, path),
            Format::Mermaid => explain::mermaid(&explanation),
            Format::Svg => explain::svg(&explanation, path),
        };
        let disagrees = explanation.kernel.is_some_and(|kernel| !kernel.agrees());
        Ok(Printed { text, code: u8::from(disagrees), ..Printed::default() })
    }
}
