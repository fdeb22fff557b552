//! `svclab attach`: another terminal of a running lab.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use super::super::console::Console;
use super::super::failure::Failure;
use super::super::interrupt::on_keys;
use super::super::lab_args::report_failure;
use super::super::{Exit, complete};
use super::front::Front;
use super::{lines, prompt};
use nix::sys::signal::Signal;
use svclab::shell::{Access, Remote, Running, end_capture, running};
use svclab::text::{counted, reason};

/// Attach this terminal to a running `svclab shell`: the same commands, in the same lab.
///
/// Only shells of the same user are found. `exit` and Ctrl-D detach this terminal; the lab keeps running. Without a terminal, commands are read from standard input.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lab: its name or process ID [default: the only running lab]
    #[arg(add = complete::labs())]
    lab: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    attempt(args, console).unwrap_or_else(|failure| failure.report(console))
}

fn attempt(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let (remote, of) = connect(args.lab.as_deref(), console)?;
    let front = Front { access: &*remote, console, has_lab: false, has_lines: true };
    if !io::stdin().is_terminal() {
        return Ok(lines(&front));
    }
    console.inform(format!(
        "attached to {} (process {}); `help` lists commands, `exit` leaves the lab up",
        of.lab, of.pid
    ));
    Ok(prompt::prompt(&front))
}

/// Connects to a shell; on a terminal, Ctrl-C interrupts the running command. Must be called while there is only one thread, because the
/// lab may be in a user namespace.
pub(super) fn connect(lab: Option<&str>, console: &Console) -> Result<(Arc<Remote>, Running), Failure> {
    let (remote, of) = find(lab)?;
    let remote = Arc::new(remote);
    if io::stdin().is_terminal() {
        let access = Arc::clone(&remote);
        let interrupted = move |_| {
            if !end_capture() {
                access.interrupt();
            }
        };
        on_keys(&[Signal::SIGINT], interrupted).map_err(|failed| report_failure(&failed, console))?;
    }
    Ok((remote, of))
}

fn find(lab: Option<&str>) -> Result<(Remote, Running), Failure> {
    let unlisted = |error| Failure::new(format!("running shells cannot be listed: {}", reason(error)), "Mount /proc.");
    let all = running().map_err(unlisted)?;
    let is_meant = |one: &&Running| lab.is_none_or(|lab| one.lab == lab || one.pid.to_string() == lab);
    let found: Vec<&Running> = all.iter().filter(is_meant).collect();
    let names = |shells: &[&Running]| {
        let names: Vec<String> = shells.iter().map(|one| format!("{} ({})", one.lab, one.pid)).collect();
        names.join(", ")
    };
    match (found.as_slice(), lab) {
        ([one], _) => Remote::connect(one).map(|remote| (remote, (*one).clone())).map_err(|error| {
            let message = format!("{} cannot be attached to: {}", one.lab, reason(error));
            Failure::new(message, "Check that it is still running and belongs to your user.")
        }),
        ([], Some(lab)) if !all.is_empty() => {
            let help = format!("Choose one of these: {}.", names(&all.iter().collect::<Vec<_>>()));
            Err(Failure::new(format!("no running shell has a lab `{lab}`"), help))
        }
        ([], _) => Err(Failure::new("no `svclab shell` of this user is running", "Start one in another terminal.")),
        (several, _) => {
            let message = format!("{} are running: {}", counted(several.len(), "shell"), names(several));
            Err(Failure::new(message, "Name one, by its lab or by the number of its process."))
        }
    }
}
