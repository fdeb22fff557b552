//! `svclab schema`: the JSON Schema of scenario files.

use super::Exit;
use super::console::Console;
use crate::scenario;

/// Print the JSON Schema of scenario files, for editors.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the command.
pub(crate) fn run(_: &Args, console: &Console) -> Exit {
    console.line(format!("{:#}", scenario::schema()));
    Exit::Held
}
