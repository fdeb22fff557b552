//! `svclab dump`: reading, checking and preparing dumps.

mod anonymize;
mod collect;
mod import;
mod lint;
mod minimize;
mod show;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::Serialize;

use super::Exit;
use super::console::Console;
use super::failure::Failure;
use super::inputs::evidence_of;
use svclab::evidence::Evidence;
use svclab::output::{Destination, Place};
use svclab::text::{counted, json, one_line, printable, reason};

/// Work with dumps: rules, listings and logs of a node, in files, folders, archives or a whole issue in Markdown.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(show::Args),
    Lint(lint::Args),
    Import(import::Args),
    Minimize(minimize::Args),
    Anonymize(anonymize::Args),
    Collect(collect::Args),
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    let done = match &args.command {
        Command::Show(args) => show::run(args, console),
        Command::Lint(args) => lint::run(args, console),
        Command::Import(args) => import::run(args, console),
        Command::Minimize(args) => minimize::run(args, console),
        Command::Anonymize(args) => anonymize::run(args, console),
        Command::Collect(args) => collect::run(args, console),
    };
    done.unwrap_or_else(|failure| failure.report(console))
}

/// Returns the evidence in inputs, and their name in messages; `-` is standard input.
fn evidence(paths: &[PathBuf]) -> Result<(PathBuf, Evidence), Failure> {
    let [path] = paths else {
        let mut all = Evidence::default();
        for path in paths {
            let (name, evidence) = evidence_of(path)?;
            all.add(&printable(&name).to_string(), evidence);
        }
        let name = paths.first().map(|first| format!("{} and {} more", printable(first), paths.len() - 1));
        return Ok((name.unwrap_or_default().into(), all));
    };
    Ok(evidence_of(path)?)
}

/// Returns the error for an input without evidence, with the reason if files could not be read.
fn unrecognised(evidence: &Evidence) -> Failure {
    if let Some(first) = evidence.unread.iter().find(|unread| unread.text.is_empty()) {
        let file = first.file.as_deref().map(|file| format!("{}: ", one_line(file))).unwrap_or_default();
        let others = evidence.unread.iter().filter(|unread| unread.text.is_empty()).count() - 1;
        let more = if others > 0 { format!(", and {}", counted(others, "other file")) } else { String::new() };
        let message = format!("no file of the input can be read: {file}{}{more}", one_line(&first.reason));
        return Failure::new(message, "Unpack it and pass the text files in it.");
    }
    let help = "Pass the output of iptables-save, iptables -L, nft list ruleset or kubectl, or a text that quotes it.";
    Failure::new("no known format found in the input", help)
}

/// Checks that an output does not overwrite an input.
fn keeps_inputs(output: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    let Ok(place) = output.canonicalize() else { return Ok(()) };
    if !place.is_file() || !inputs.iter().any(|input| input.canonicalize().is_ok_and(|input| input == place)) {
        return Ok(());
    }
    let message = format!("the output {} would overwrite an input", printable(output));
    Err(Failure::new(message, "Name another file with `--output`."))
}

/// Whether a path is a name of standard output.
fn is_standard_output(path: &Path) -> bool {
    Place::of(path).is_ok_and(|place| place == Place::Stdout)
}

/// Writes a file, or to standard output for `-` and other names of it.
fn write(path: &Path, bytes: &[u8], console: &Console) -> Result<(), Failure> {
    let written = Place::of(path).and_then(|place| match place {
        Place::Stdout => {
            console.data(bytes);
            Ok(())
        }
        place => Destination::open(place)?.write(bytes),
    });
    written.map_err(|error| {
        let message = format!("cannot write {}: {}", printable(path), reason(&error));
        Failure::unwritten(message, &error, "Name a file in a folder that exists and that you may write to.")
    })
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
