//! `svclab completions`: completion scripts for shells.

use clap_complete::Shell;
use clap_complete::env::Shells;

use super::Exit;
use super::complete::VARIABLE;
use super::console::Console;

/// Print a shell's completion script for commands, options, scenario files, and names of tests, tags and machines.
///
/// The script calls `svclab` on the PATH to complete names.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

/// If zsh has autoloaded the script as a function on first use, it completes immediately.
const AUTOLOADED: &str = "[[ $funcstack[1] != _svclab ]] || _clap_dynamic_completer_svclab\n";

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    if args.shell == Shell::Bash {
        // The script of clap_complete does not complete words with `:` and `@`, at which bash splits words.
        console.text(include_str!("completions/svclab.bash"));
        return Exit::Held;
    }
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let completer = shells.completer(&args.shell.to_string());
    let written = completer.map(|shell| shell.write_registration(VARIABLE, "svclab", "svclab", "svclab", &mut script));
    match written {
        Some(Ok(())) => {
            console.text(String::from_utf8_lossy(&script));
            if args.shell == Shell::Zsh {
                console.text(AUTOLOADED);
            }
            Exit::Held
        }
        _ => Exit::Internal,
    }
}
