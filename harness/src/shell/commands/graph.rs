//! `graph`: a diagram of the cluster, with the path of a flow.

use std::path::PathBuf;

use super::flow::Flow;
use crate::graph::{self, Format};
use crate::shell::engine::Engine;
use crate::shell::reply::{Printed, View};
use crate::text::printable;

/// Draw nodes, pods, services and addresses as they are now, and the path of a flow.
///
/// Nothing is sent: the path is predicted from the rules. `graph` prints a Mermaid flowchart; `graph --write FILE.svg` writes an SVG file.
#[derive(Debug, clap::Args)]
pub(in crate::shell) struct Graph {
    /// Draw the path of a flow from this sender: `pod/NAME`, `node/NAME`, `localhost@NODE` or `host/NAME`.
    #[arg(value_name = "FROM", requires = "to")]
    from: Option<String>,
    /// The destination of the flow: `service/NAME:PORT`, `nodeport/NAME:PORT@NODE`, `ADDRESS:PORT`, ...
    #[arg(value_name = "TO")]
    to: Option<String>,
    #[command(flatten)]
    flow: Flow,
    /// The format [default: by the extension of FILE (`.svg`, `.dot`, `.mmd`), otherwise mermaid]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write it to a file.
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
}

impl Graph {
    pub(super) fn execute(self, engine: &mut Engine<'_>, _: &View) -> Result<Printed, Printed> {
        let format = match (self.format, &self.write) {
            (Some(format), _) => format,
            (None, None) => Format::Mermaid,
            (None, Some(file)) => Format::from_extension(file).ok_or_else(|| {
                let help = "Use the extension `.svg`, `.dot` or `.mmd`, or add `--format`.";
                Printed::wrong(format_args!("the format of `{}` is unknown", printable(file)), help)
            })?,
        };
        let graph = match (self.from, self.to) {
            (Some(from), Some(to)) => {
                let path = self.flow.path;
                let (ad_hoc, explanation) = self.flow.explain((from, to), false, engine)?;
                graph::Graph::of(&ad_hoc.scenario, engine.cluster(), Some((&explanation, path)))
            }
            _ => graph::Graph::of(engine.scenario(), engine.cluster(), None),
        };
        Ok(Printed { text: format.render(&graph), file: self.write, ..Printed::default() })
    }
}
