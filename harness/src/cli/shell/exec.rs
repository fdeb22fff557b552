//! `svclab exec`: one command in a running lab.

use super::super::console::Console;
use super::super::failure::Failure;
use super::super::{Exit, complete};
use super::attach::connect;
use super::front::Front;
use svclab::shell::{is_command, is_place};

/// Run one command in the lab of a running `svclab shell`, and exit with its code.
///
/// `svclab exec pod/client curl -s http://nginx` runs a program in a place: `pod/NAME`, `node/NAME` or `host/NAME`. Without a place, COMMAND is one of the
/// shell: `svclab exec show`. If several labs are running, LAB is the name or process ID of the lab. `--` may precede COMMAND, and is
/// required if LAB is also the name of a command; svclab's options come before all of these.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lab, the place, and the program with its arguments or a command of the shell.
    #[arg(value_name = "[LAB] [PLACE] COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true, add = complete::labs_and_places())]
    words: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    attempt(args, console).unwrap_or_else(|failure| failure.report(console))
}

fn attempt(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let Words { lab, command } = Words::of(&args.words);
    if command.is_empty() {
        return Err(Failure::new("there is no command", "Append it: `svclab exec pod/NAME ip address`."));
    }
    let (remote, _) = connect(lab, console)?;
    Ok(Front { access: &*remote, console, has_lab: false, has_lines: false }.only(&command))
}

/// The parsed words of the command line.
#[derive(Debug, PartialEq, Eq)]
struct Words<'w> {
    lab: Option<&'w str>,
    /// The place, if there is one, and the program there; or a command of the shell.
    command: Vec<String>,
}

impl<'w> Words<'w> {
    fn of(words: &'w [String]) -> Self {
        // Options of kubectl and docker: a program has the terminal anyway.
        const OPTIONS: [&str; 6] = ["-i", "-t", "-it", "-ti", "--stdin", "--tty"];
        let options = words.iter().take_while(|word| OPTIONS.contains(&word.as_str())).count();
        let words = &words[options..];
        let is_separator = |word: &String| word == "--";
        let (lab, rest) = match words {
            [first, rest @ ..] if rest.first().is_some_and(is_separator) && !is_place(first) => (Some(first), rest),
            [first, rest @ ..] if !is_place(first) && !is_command(first) && !rest.is_empty() => (Some(first), rest),
            words => (None, words),
        };
        let (place, program) = rest.split_at(rest.iter().take(1).filter(|first| is_place(first)).count());
        let program = program.strip_prefix(&["--".to_owned()]).unwrap_or(program);
        Self { lab: lab.map(String::as_str), command: [place, program].concat() }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::Words;

    #[rstest]
    #[case::options_of_the_program("pod/client curl -s http://nginx", None, "pod/client curl -s http://nginx")]
    #[case::separated("pod/client -- curl -s http://nginx", None, "pod/client curl -s http://nginx")]
    #[case::separator_of_the_program("pod/client grep -- -x", None, "pod/client grep -- -x")]
    #[case::in_a_lab("first node/worker iptables -S", Some("first"), "node/worker iptables -S")]
    #[case::in_a_lab_separated("first node/worker -- iptables -S", Some("first"), "node/worker iptables -S")]
    #[case::of_the_shell("probe pod/client service/nginx:80", None, "probe pod/client service/nginx:80")]
    #[case::of_the_shell_in_a_lab("first show", Some("first"), "show")]
    #[case::of_a_lab_that_is_called_so("show -- rules diff", Some("show"), "rules diff")]
    #[case::unknown("frist", None, "frist")]
    #[case::as_kubectl("-it pod/client -- sh", None, "pod/client sh")]
    fn words_are_told_apart(#[case] line: &str, #[case] lab: Option<&str>, #[case] command: &str) {
        let list = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(Words::of(&list(line)), Words { lab, command: list(command) });
    }
}
