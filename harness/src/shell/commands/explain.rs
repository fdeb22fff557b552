//! `explain`: the path of one packet, rule by rule.

use std::path::PathBuf;

use clap::ValueEnum;

use super::flow::Flow;
use crate::explain;
use crate::shell::engine::Engine;
use crate::shell::reply::{Printed, View};

/// Explain the path of one packet and its reply, rule by rule.
///
/// The options are those of `svclab explain`. The exit code is 1 if the kernel disagrees with the prediction.
#[derive(Debug, clap::Args)]
pub(in crate::shell) struct Explain {
    /// The sender: `pod/NAME`, `node/NAME`, `localhost@NODE` or `host/NAME`.
    #[arg(value_name = "FROM", required_unless_present = "from_option")]
    from: Option<String>,
    /// The destination: `service/NAME:PORT`, `nodeport/NAME:PORT@NODE`, `ADDRESS:PORT`, ...
    #[arg(value_name = "TO", required_unless_present = "to_option")]
    to: Option<String>,
    /// The sender, as for `svclab explain`.
    #[arg(id = "from_option", long = "from", value_name = "FROM", conflicts_with = "from", hide = true)]
    from_option: Option<String>,
    /// The destination, as for `svclab explain`.
    #[arg(id = "to_option", long = "to", value_name = "TO", conflicts_with = "to", hide = true)]
    to_option: Option<String>,
    #[command(flatten)]
    flow: Flow,
    /// Also send the packet, trace the rules that the kernel matches, and mark where they diverge from the prediction.
    #[arg(long, conflicts_with = "path")]
    live: bool,
    /// The output format.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Write it to a file.
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Mermaid,
    Svg,
}

impl Explain {
    pub(super) fn execute(self, engine: &mut Engine<'_>, view: &View) -> Result<Printed, Printed> {
        let Self { flow, live, format, write, .. } = self;
        let from = self.from.or(self.from_option).unwrap_or_default();
        let to = self.to.or(self.to_option).unwrap_or_default();
        let path = flow.path;
        let (_, explanation) = flow.explain((from, to), live, engine)?;
        let text = match format {
            Format::Text => explain::page(&explanation, view.settings, path),
            Format::Mermaid => explain::mermaid(&explanation),
            Format::Svg => explain::svg(&explanation, path),
        };
        let disagrees = explanation.kernel.is_some_and(|kernel| !kernel.agrees());
        Ok(Printed { text, file: write, code: u8::from(disagrees), ..Printed::default() })
    }
}
