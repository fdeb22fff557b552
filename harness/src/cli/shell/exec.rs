//! `svclab exec`: one command in a lab that is up.

use super::super::Exit;
use super::super::console::Console;
use super::super::failure::Failure;
use super::attach::connect;
use super::front::Front;

/// Carry out one command in the lab of a running `svclab shell`, and exit with its code.
///
/// The place is `pod/NAME`, `node/NAME` or `host/NAME`; without one, COMMAND is a command of the shell: `svclab exec -- show`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lab (its name, or the number of its process), if several run, and the place.
    #[arg(value_name = "[LAB] [PLACE]", num_args = 0..=2)]
    whereto: Vec<String>,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    attempt(args, console).unwrap_or_else(|failure| failure.report(console))
}

fn attempt(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let (places, labs): (Vec<&String>, Vec<&String>) = args.whereto.iter().partition(|word| word.contains('/'));
    let (lab, place) = match (labs.as_slice(), places.as_slice()) {
        (labs @ ([] | [_]), places @ ([] | [_])) => (labs.first(), places.first()),
        ([..], [_, ..]) if places.len() > 1 => return Err(Failure::new("there are two places", "Name one.")),
        _ => return Err(Failure::new("there are two labs", "Name one, and the place: `pod/NAME`.")),
    };
    let (remote, _) = connect(lab.map(|lab| lab.as_str()), console)?;
    let words: Vec<String> = place.into_iter().copied().chain(&args.command).cloned().collect();
    Ok(Front { access: &*remote, console }.only(&words))
}
