//! `svclab dump show`: what was recognised, repaired and skipped.

use std::path::PathBuf;

use super::evidence;
use crate::cli::Exit;
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::cli::format::Format;
use svclab::evidence::{json, render};

/// Show the recognised blocks of an input: the format and lines of each, how lines were repaired, and all lines that were not read.
///
/// Exits with 2 if nothing is recognised.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file, folder or archive (tar, tar.gz, zip); `-` for standard input.
    input: PathBuf,
    /// The output format.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let (path, evidence) = evidence(std::slice::from_ref(&args.input))?;
    match args.format {
        Format::Text => console.text(render(&path, &evidence, console.settings())),
        Format::Json => super::print(&json::Document::of(&path, &evidence), console)?,
    }
    if evidence.pieces.is_empty() {
        return Err(super::unrecognised(&evidence));
    }
    Ok(Exit::Held)
}
