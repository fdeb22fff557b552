//! `svclab dump`: what people send, read and judged; needs no privileges.

mod lint;
mod show;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::Serialize;

use super::console::Console;
use super::failure::Failure;
use super::{Exit, text_of};
use svclab::evidence::{self, Evidence};
use svclab::input::unreadable;
use svclab::text::json;

/// Read what was sent: a file, a folder, an archive or a whole issue in Markdown.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(show::Args),
    Lint(lint::Args),
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    let done = match &args.command {
        Command::Show(args) => show::run(args, console),
        Command::Lint(args) => lint::run(args, console),
    };
    done.unwrap_or_else(|failure| failure.report(console))
}

/// The evidence of an input, and what messages call it; `-` is standard input.
fn evidence(path: &Path) -> Result<(PathBuf, Evidence), Failure> {
    if path.as_os_str() == "-" {
        let (file, text) = text_of(path);
        let text = text.map_err(|error| unreadable(&file, &error))?;
        return Ok((file, evidence::read(&text)));
    }
    let evidence = evidence::from_path(path).map_err(|error| Failure::new(error.to_string(), error.help))?;
    Ok((path.to_owned(), evidence))
}

/// Nothing in an input is evidence.
fn unrecognised() -> Failure {
    let help = "Pass the output of iptables-save, iptables -L, nft list ruleset or kubectl, or a text that quotes it.";
    Failure::new("nothing in the input is recognised", help)
}

/// Prints a document as JSON.
fn print(document: &impl Serialize, console: &Console) -> Result<(), Failure> {
    let text = json(document).map_err(|error| {
        console.complain(format!("the result cannot be written as JSON: {error}"));
        Exit::Internal
    })?;
    console.text(text);
    Ok(())
}
