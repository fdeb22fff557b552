//! `svclab completions`: what shells need to complete a command line.

use clap::CommandFactory;
use clap_complete::Shell;

use super::console::Console;
use super::{Cli, Exit};

/// Print completions for a shell.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "svclab", &mut script);
    console.text(String::from_utf8_lossy(&script));
    Exit::Held
}
