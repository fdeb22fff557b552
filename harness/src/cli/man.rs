//! `svclab man`: manual pages.

use std::fs;
use std::path::PathBuf;

use clap::CommandFactory;

use super::console::Console;
use super::failure::Failure;
use super::{Cli, Exit};
use svclab::text::{counted, printable, reason};

/// Print the manual page of svclab, or write those of all commands into a folder.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder, created if it does not exist [default: print svclab.1]
    folder: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    let written = match &args.folder {
        Some(folder) => write(folder, console),
        None => page(console),
    };
    written.map_or_else(|failure| failure.report(console), |()| Exit::Held)
}

fn page(console: &Console) -> Result<(), Failure> {
    let mut page = Vec::new();
    // As in a folder of pages: clap's own `help` has no page.
    let command = Cli::command().disable_help_subcommand(true);
    clap_mangen::Man::new(command).render(&mut page).map_err(|_| Failure::from(Exit::Internal))?;
    console.text(String::from_utf8_lossy(&page));
    Ok(())
}

fn write(folder: &PathBuf, console: &Console) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let message = format!("{}: the pages cannot be written: {}", printable(folder), reason(&error));
        Failure::unwritten(message, &error, "Name a folder that can be written to.")
    };
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(failed)?;
    console.inform(format!("{}: {}", printable(folder), counted(pages(&Cli::command()), "page")));
    Ok(())
}

/// Counts the pages of a command: its own, and those of its subcommands.
fn pages(command: &clap::Command) -> usize {
    1 + command.get_subcommands().filter(|one| !one.is_hide_set()).map(pages).sum::<usize>()
}
