//! `svclab worker`: a process of `svclab run`, which has labs.

use super::Exit;
use super::console::Console;
use svclab::run::serve;
use svclab::text::reason;

/// Build labs for `svclab run`, which starts this by itself.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the command.
pub(crate) fn run(_: &Args, console: &Console) -> Exit {
    match serve() {
        Ok(()) => Exit::Held,
        Err(error) => {
            console.complain(format!("{}\nhelp: Use `svclab run`, which starts its workers.", reason(&error)));
            Exit::Input
        }
    }
}
