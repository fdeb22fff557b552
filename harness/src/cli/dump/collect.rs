//! `svclab dump collect`: the state of a node, in one archive.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, umask};

use crate::cli::Exit;
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use svclab::collect::{SCRIPT, Target, collect};
use svclab::text::{printable, reason};

/// Collect everything about Service traffic on this node into one archive that other commands accept.
///
/// The archive contains rules of all backends with counters, addresses, routes, connections, kernel settings, kube-proxy's configuration and log, and
/// Kubernetes objects where kubectl works. Nothing on the node is changed. Secrets are not read, and tokens, passwords and keys are
/// left out; names and addresses are kept: `svclab dump anonymize` replaces them. Run it as root. Exits with 3 if no archive can
/// be written; commands that are missing, fail or take too long are recorded in the archive.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The archive to write [default: svclab-NODE-TIME.tar.gz]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the shell script that does this, for nodes without svclab: `sudo sh collect.sh [FILE]`.
    #[arg(long, conflicts_with = "output")]
    script: bool,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    if args.script {
        console.data(SCRIPT.as_bytes());
        return Ok(Exit::Held);
    }
    // Before everything is collected, which may take minutes.
    args.output.as_deref().map_or(Ok(()), check_folder)?;
    let target = if args.output.is_some() { Target::Memory } else { Target::NewFile };
    let collected = collect(target).map_err(|error| {
        console.complain(format!("the shell `sh` cannot be run: {}", reason(error)));
        Exit::Environment
    })?;
    collected.messages.lines().for_each(|line| console.complain(line));
    if !collected.is_complete {
        console
            .complain("no archive was written\nhelp: Choose a file in a folder that you may write to with `--output`.");
        return Ok(Exit::Environment);
    }
    match &args.output {
        Some(path) => {
            // As the script does: the archive shows what only root may see.
            umask(Mode::S_IRWXG | Mode::S_IRWXO);
            super::write(path, &collected.output, console)?;
            if !super::is_standard_output(path) {
                console.text(format!("{}\n", printable(path)));
            }
        }
        None => console.text(String::from_utf8_lossy(&collected.output)),
    }
    Ok(Exit::Held)
}

/// Rejects a path in a folder that does not exist.
fn check_folder(path: &Path) -> Result<(), Failure> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) else {
        return Ok(());
    };
    let message = format!("cannot write {}: there is no folder {}", printable(path), printable(folder));
    let help = "Name a file in a folder that exists and that you may write to.";
    Err(Failure::unwritten(message, &ErrorKind::NotFound.into(), help))
}
