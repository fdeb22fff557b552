//! `svclab new`: a scenario to start from.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::Exit;
use super::console::Console;
use super::failure::Failure;
use svclab::text::{printable, reason};

/// Write a commented scenario as a starting point; it can be run unchanged.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file; an existing one is never overwritten [default: print the scenario]
    file: Option<PathBuf>,
    /// kube-proxy's mode.
    #[arg(long, value_enum, default_value = "iptables")]
    mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    Iptables,
    Nftables,
}

/// The scenario, in iptables mode.
const SCENARIO: &str = include_str!("new/scenario.yaml");

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    let text = match args.mode {
        Mode::Iptables => SCENARIO.to_owned(),
        Mode::Nftables => SCENARIO.replacen("mode: iptables", "mode: nftables", 1),
    };
    let Some(file) = args.file.as_deref().filter(|file| file.as_os_str() != "-") else {
        console.text(text);
        return Exit::Held;
    };
    match write(file, &text) {
        Ok(()) => {
            console.inform(format!("{}: written; `svclab run` runs its tests", printable(file)));
            Exit::Held
        }
        Err(failure) => failure.report(console),
    }
}

/// Writes a file that does not exist yet.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let written = OpenOptions::new().write(true).create_new(true).open(file);
    written.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::new(format!("{} exists", printable(file)), "Name a file that does not exist yet.")
        }
        _ => {
            let message = format!("{}: the scenario cannot be written: {}", printable(file), reason(&error));
            Failure::unwritten(message, &error, "Name a file in a folder that can be written to.")
        }
    })
}
