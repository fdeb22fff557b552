//! The commands about a lab as a whole, one per file: the arguments, whose comments are the help, and the implementation.

mod apply;
mod explain;
mod flow;
mod graph;
mod link;
mod power;
mod probe;
mod proxies;
mod rules;
mod show;
mod test;

use clap::Subcommand;

use super::engine::Engine;
use super::reply::{Printed, View};

/// A command about the lab as a whole. The names of values determine how they are completed: see `completion`.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    #[command(alias = "status")]
    Show(show::Show),
    Probe(probe::Probe),
    Explain(explain::Explain),
    Graph(graph::Graph),
    Apply(apply::Apply),
    Link(link::Link),
    Down(power::Down),
    Up(power::Up),
    Stop(proxies::Stop),
    Start(proxies::Start),
    Restart(proxies::Restart),
    Rules(rules::Rules),
    Test(test::Test),
}

impl Command {
    /// Executes the command; an error is also returned as its output.
    pub(super) fn execute(self, engine: &mut Engine<'_>, view: &View) -> Printed {
        let result = match self {
            Self::Show(show) => show.execute(engine, view),
            Self::Probe(probe) => probe.execute(engine, view),
            Self::Explain(explain) => explain.execute(engine, view),
            Self::Graph(graph) => graph.execute(engine, view),
            Self::Apply(apply) => apply.execute(engine, view),
            Self::Link(link) => link.execute(engine, view),
            Self::Down(down) => down.execute(engine, view),
            Self::Up(up) => up.execute(engine, view),
            Self::Stop(stop) => stop.execute(engine, view),
            Self::Start(start) => start.execute(engine, view),
            Self::Restart(restart) => restart.execute(engine, view),
            Self::Rules(rules) => rules.execute(engine, view),
            Self::Test(test) => test.execute(engine, view),
        };
        result.unwrap_or_else(|failed| failed)
    }
}
