//! `svclab shell`: a lab that stays up, with a prompt.

mod attach;
mod exec;
mod front;
mod operator;
mod prompt;

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::console::Console;
use super::failure::Failure;
use super::inputs::{InputArgs, InputText, input, report_assumptions};
use super::lab_args::{BackendArgs, prepare, report_failure};
use super::proxies::not_applicable;
use super::{Exit, interrupt, warn};
pub(super) use attach::{Args as AttachArgs, run as attach};
pub(super) use exec::{Args as ExecArgs, run as exec};
use front::{End, Front};
use nix::sys::signal::Signal;
use svclab::infer::{Assumption, Connections};
use svclab::input::Reach;
use svclab::proxy::fit;
use svclab::scenario::Scenario;
use svclab::shell::{self, Access, Input, Shell, Socket, Subject, end_capture};
use svclab::testing::become_privileged;
use svclab::text::{one_line, reason, shortened};

/// Build a lab that keeps running, and enter commands: programs in pods and on nodes, probes, changes.
///
/// Pods have their own network stacks and serve their ports over HTTP: `pod/client curl http://nginx`. `help` lists the commands. Without a
/// terminal, commands are read from standard input, and the exit code is that of the last one.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A scenario, Kubernetes objects, or a dump (rules, an issue, a folder or an archive).
    path: PathBuf,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    backend: BackendArgs,
    /// Start in the cluster state after the first N changing steps: `apply`, `restart`, `stop`, `start`, `link`, `down`, `up`.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = super::numbers::index)]
    step: usize,
    /// The name by which `svclab attach` and `svclab exec` find this lab [default: the file's name]
    #[arg(long, value_name = "NAME", value_parser = lab_name)]
    name: Option<String>,
    /// Run only this command, and exit with its code.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    attempt(args, console).unwrap_or_else(|failure| failure.report(console))
}

fn attempt(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let subject = subject(args, console)?;
    let name = args.name.clone().unwrap_or_else(|| name_of(&args.path));
    open(subject, &Options { name, backend: args.backend, command: &args.command }, console)
}

/// Options for opening a shell.
struct Options<'a> {
    name: String,
    backend: BackendArgs,
    /// The only command to run, if not empty.
    command: &'a [String],
}

/// Opens a shell for a subject.
fn open(subject: Subject, options: &Options<'_>, console: &Console) -> Result<Exit, Failure> {
    fit(None, &subject.scenario).map_err(|why| not_applicable(&why))?;
    let socket = Socket::bind(&options.name).map_err(|error| {
        let message = format!("other terminals cannot be served: {}", reason(error));
        Failure::new(message, "Choose another `--name`.")
    })?;
    let is_interactive = options.command.is_empty() && io::stdin().is_terminal();
    if is_interactive {
        become_privileged().map_err(|failed| report_failure(&failed, console))?;
        keys_of_terminal(console)?;
    } else {
        prepare(console)?;
    }
    let end = shell::open(subject, options.backend.into(), |shell| {
        if let Err(error) = socket.serve(shell) {
            console.complain(format!("other terminals cannot be served: {}", reason(error)));
        }
        let _ = SHELL.set(shell.clone());
        commands(options, shell, console)
    });
    end.map_err(|failed| Failure::from(report_failure(&failed, console)))
}

/// The shell that receives Ctrl-C: the thread for its signal is started before the lab.
static SHELL: OnceLock<Shell> = OnceLock::new();

/// Makes Ctrl-C interrupt the running command instead of the shell, except while the lab is being built, when it ends the shell. Ctrl-Z
/// does not stop the shell: its servers and other terminals would hang.
fn keys_of_terminal(console: &Console) -> Result<(), Exit> {
    let pressed = |key| match key {
        Signal::SIGTSTP => front::say_not_stopped(),
        _ if end_capture() => {}
        _ => match SHELL.get() {
            Some(shell) => shell.interrupt(),
            None => interrupt::end(key, "interrupted: the lab has been removed"),
        },
    };
    interrupt::on_keys(&[Signal::SIGINT, Signal::SIGTSTP], pressed).map_err(|failed| report_failure(&failed, console))
}

/// Returns the name of a lab: its file's, without the extension and characters that need quoting.
fn name_of(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
    let name: String = stem.chars().map(plain).collect();
    // A name that starts with a hyphen would be an option of `svclab attach`.
    let name: String = name.trim_matches('-').chars().take(LONGEST_NAME).collect();
    if name.is_empty() { "lab".to_owned() } else { name }
}

/// Maximum length of a lab's name.
const LONGEST_NAME: usize = 40;

/// Opens a shell for a loaded scenario, in the state after this many changes by its steps.
pub(super) fn open_scenario(
    scenario: &Scenario,
    reach: Reach,
    step: usize,
    backend: BackendArgs,
    console: &Console,
) -> Result<Exit, Failure> {
    let text = scenario.inputs.get(&scenario.file).map(|text| text.to_string()).unwrap_or_default();
    let subject = shell::read(text, scenario.file.clone(), reach, step)?;
    let options = Options { name: name_of(&scenario.file), backend, command: &[] };
    open(subject, &options, console)
}

/// Returns the subject of the shell.
fn subject(args: &Args, console: &Console) -> Result<Subject, Failure> {
    let (path, input) = input(&args.path)?;
    let InputText { text, assumptions, ignored_rules, .. } = input.into_text(&path, Connections::LeftOut)?;
    let mut subject = shell::read(text, path.clone(), args.inputs.reach(), args.step)?;
    subject.scenario.ignored_rules = ignored_rules;
    warn(&subject.scenario.notes, console);
    let assumptions: Vec<Assumption> = assumptions.into_iter().chain(subject.assumptions.clone()).collect();
    report_assumptions(&path, &assumptions, console);
    Ok(subject)
}

/// Executes typed commands, or the command of the command line.
fn commands(options: &Options<'_>, shell: &Shell, console: &Console) -> Exit {
    let has_prompt = options.command.is_empty() && io::stdin().is_terminal();
    let front = Front { access: shell, console, has_lab: has_prompt, has_lines: options.command.is_empty() };
    if !options.command.is_empty() {
        return front.only(options.command);
    }
    if has_prompt {
        let scenario = &shell.scenario().name;
        console.inform(format!(
            "{scenario}\n`help` lists commands; from another terminal: svclab attach {}",
            options.name
        ));
        return prompt::prompt(&front);
    }
    lines(&front)
}

/// Executes the lines of standard input; the result is that of the last one.
fn lines(front: &Front<'_>) -> Exit {
    let mut last = Exit::Held;
    for (number, line) in (1..).zip(io::stdin().lock().lines()) {
        match line {
            Ok(line) => match front.line(&line, Input::Nothing) {
                End::Of(exit) => {
                    if exit != Exit::Held {
                        front.console.complain(format!("in line {number}: {}", one_line(&shortened(line.trim()))));
                    }
                    last = exit;
                }
                End::Shell(exit) if exit != Exit::Held => return exit,
                End::Shell(_) => break,
            },
            // Other lines may be readable.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                front.console.complain("a line is not UTF-8 text, and is skipped\nhelp: Save the commands as UTF-8.");
                last = Exit::Input;
            }
            Err(error) => {
                front.console.complain(format!("standard input cannot be read: {}", reason(&error)));
                return Exit::Input;
            }
        }
    }
    last
}

/// Parses a lab name on the command line.
fn lab_name(text: &str) -> Result<String, String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let is_name = (1..=LONGEST_NAME).contains(&text.len()) && text.chars().all(is_plain);
    if is_name {
        Ok(text.to_owned())
    } else {
        Err(format!("use up to {LONGEST_NAME} ASCII letters, digits, `-`, `_` and `.`"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rstest::rstest;

    use super::{lab_name, name_of};

    #[rstest]
    #[case("cluster.yaml", "cluster")]
    #[case(" a b.yaml", "a-b")]
    #[case("-.yaml", "lab")]
    #[case("/", "lab")]
    #[case("ä.yaml", "lab")]
    fn a_lab_is_called_as_its_file_is(#[case] file: &str, #[case] name: &str) {
        assert_eq!(name_of(Path::new(file)), name);
        assert_eq!(lab_name(name), Ok(name.to_owned()));
    }
}
