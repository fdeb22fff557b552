//! The formats that a graph is rendered in.

use std::path::Path;

use clap::ValueEnum;

use super::{Graph, dot, mermaid, svg};

/// A format of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A picture.
    Svg,
    /// A graph for Graphviz.
    Dot,
    /// A flowchart, for Markdown on GitHub.
    Mermaid,
}

impl Format {
    /// Returns the format of a file extension.
    pub(crate) fn from_extension(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "svg" => Some(Self::Svg),
            "dot" | "gv" => Some(Self::Dot),
            "mmd" | "mermaid" => Some(Self::Mermaid),
            _ => None,
        }
    }

    /// Renders a graph.
    pub fn render(self, graph: &Graph) -> String {
        match self {
            Self::Svg => svg::svg(graph),
            Self::Dot => dot::dot(graph),
            Self::Mermaid => mermaid::mermaid(graph),
        }
    }
}
