//! `svclab worker`: a process of another command that builds labs.

use super::Exit;
use super::console::Console;
use svclab::text::reason;
use svclab::worker::Kind;
use svclab::{diff, doctor, explain, mutate, sampling, shell, verify, vm};

/// Build labs for another command, which starts this by itself.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What the command has done here.
    #[arg(value_parser = kind)]
    kind: Kind,
}

fn kind(name: &str) -> Result<Kind, String> {
    let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == name);
    kind.ok_or_else(|| "commands start their workers themselves".to_owned())
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    let is_guest = vm::is_guest();
    if is_guest {
        vm::enter();
    }
    let served = match args.kind {
        Kind::Run => svclab::run::serve(),
        Kind::Verify => verify::serve(),
        Kind::Mutate => mutate::serve(),
        Kind::Explain => explain::serve(),
        Kind::Diff => diff::serve(),
        Kind::Sample => sampling::serve(),
        Kind::Doctor => doctor::serve(),
        Kind::Init => shell::serve_init(),
    };
    let exit = match served {
        Ok(()) => Exit::Held,
        Err(error) => {
            console.complain(format!("{}\nhelp: Use `svclab run`, which starts its workers.", reason(&error)));
            Exit::Input
        }
    };
    if is_guest {
        vm::leave();
    }
    exit
}
