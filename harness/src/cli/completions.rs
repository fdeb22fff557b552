//! `svclab completions`: what shells need to complete a command line.

use std::io;

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
pub(crate) fn run(args: &Args, _: &Console) -> Exit {
    clap_complete::generate(args.shell, &mut Cli::command(), "svclab", &mut io::stdout());
    Exit::Held
}
