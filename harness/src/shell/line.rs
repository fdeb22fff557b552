//! Parses a typed line into a command.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use super::commands::Command;
use super::names::{is_place, suggested};
use super::reply::{PlaceTask, Printed};
use crate::input::did_you_mean;
use crate::page::Settings;
use crate::text::shortened;

/// clap's description of `help`, which is replaced because commands are not subcommands here.
const OF_HELP: &str = "Print this message or the help of the given subcommand(s)";

const PROGRAMS: &str = "\
A line that starts with a place runs a real program there:
  pod/client curl http://nginx     with service names, as in DNS
  pod/client get http://nginx      the same without curl
  node/worker iptables-save        on a node
  host/outside sh                  a shell on a machine outside of the cluster

`help COMMAND` explains a command. Words are quoted as in sh.";

/// A command as typed.
#[derive(Debug)]
pub(super) enum Line {
    /// Nothing, or a comment.
    Empty,
    /// A task in a place.
    In(String, PlaceTask),
    /// A command about the lab as a whole.
    Lab(Command),
    /// Ends the front end.
    Exit,
}

/// Commands of this shell.
#[derive(Debug, Parser)]
#[command(name = "", no_binary_name = true, help_template = "{subcommands}{after-help}", after_help = PROGRAMS)]
pub(super) struct Typed {
    #[command(subcommand)]
    command: Word,
}

#[derive(Debug, clap::Subcommand)]
enum Word {
    #[command(flatten)]
    Lab(Command),
    Capture(Capture),
    /// Leave the shell, as Ctrl-D does.
    #[command(alias = "quit")]
    Exit,
}

/// Print the packets at the interfaces of a place, until Ctrl-C.
#[derive(Debug, clap::Args)]
struct Capture {
    /// The place: `pod/NAME`, `node/NAME` or `host/NAME`.
    #[arg(value_name = "PLACE")]
    place: String,
    /// Also write them to a file, as pcapng.
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Stop after N packets.
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
}

/// The file that a command reads. The front end reads it, since a lab may not see all files that its front ends see.
pub fn file_to_read(words: &[String]) -> Option<PathBuf> {
    match Typed::try_parse_from(words).ok()?.command {
        Word::Lab(Command::Apply(apply)) => Some(apply.file()),
        _ => None,
    }
}

/// Whether a word is a command of the shell, or contains a whole line.
pub fn is_command(word: &str) -> bool {
    word == "help" || word.contains(char::is_whitespace) || Typed::command().find_subcommand(word).is_some()
}

/// Parses the words of a line.
///
/// # Errors
///
/// What is wrong with them, or the requested help.
pub(super) fn line(words: &[String], settings: &Settings, places: &[String]) -> Result<Line, Printed> {
    let Some(first) = words.first().filter(|first| !first.starts_with('#')) else { return Ok(Line::Empty) };
    if let [help, place, ..] = words
        && help == "help"
        && is_place(place)
    {
        return Err(Printed::text(format!("{PROGRAMS}\n")));
    }
    if is_place(first) {
        let program = words[1..].to_vec();
        if program.is_empty() {
            let help = format!("Add its command: `{first} ip address`, or `{first} sh` for a shell there.");
            return Err(Printed::wrong(format_args!("no program to run in {first}"), &help));
        }
        let task = match program.as_slice() {
            [get, url] if get == "get" => PlaceTask::Get(url.clone()),
            _ => PlaceTask::Run(program),
        };
        return Ok(Line::In(first.clone(), task));
    }
    match Typed::try_parse_from(words) {
        Ok(Typed { command: Word::Lab(command) }) => Ok(Line::Lab(command)),
        Ok(Typed { command: Word::Capture(Capture { place, write, count }) }) => {
            Ok(Line::In(place, PlaceTask::Capture { file: write, count }))
        }
        Ok(Typed { command: Word::Exit }) => Ok(Line::Exit),
        Err(error) if error.kind() == ErrorKind::InvalidSubcommand && first != "help" => {
            Err(no_such_command(first, places))
        }
        Err(error) => {
            let rendered = error.render();
            let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            if is_help {
                let text = if settings.colours { rendered.ansi().to_string() } else { rendered.to_string() };
                return Err(Printed::text(text.replace(OF_HELP, "Explain a command")));
            }
            Err(wrong_arguments(&rendered.to_string(), first))
        }
    }
}

/// Translates an error message of clap into the terms of the shell.
fn wrong_arguments(rendered: &str, command: &str) -> Printed {
    let text = rendered.strip_prefix("error: ").unwrap_or(rendered);
    // clap suggests `--` before words with a hyphen, and refers to `--help`.
    let lines = text.lines().filter(|line| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with("tip: to pass") && !line.starts_with("For more information")
    });
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    Printed::wrong(text.trim_end(), &format!("Run `help {command}`."))
}

fn no_such_command(word: &str, places: &[String]) -> Printed {
    let commands: Vec<String> =
        Typed::command().get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let word = shortened(word);
    let place = places.iter().find(|place| place.starts_with("pod/")).map_or("pod/NAME", String::as_str);
    let others = || match &*word {
        "?" => "Run `help` for the commands.".to_owned(),
        "kubectl" => "Use `apply FILE` for `kubectl apply`, and `show` for `kubectl get`.".to_owned(),
        "clear" => "Press Ctrl-L to clear the screen.".to_owned(),
        word => format!("Run `help` for the commands. A program needs a place before it: `{place} {word}`."),
    };
    let help = did_you_mean(&word, &commands).or_else(|| suggested(&word, places)).unwrap_or_else(others);
    Printed::wrong(format_args!("there is no command `{word}`"), &help)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn words(line: &str) -> Vec<String> {
        shlex::split(line).expect("quotes match")
    }

    #[rstest]
    #[case("", "Empty")]
    #[case("# a comment", "Empty")]
    #[case("exit", "Exit")]
    #[case("pod/client curl -s 'http://nginx/a b'", r#"In("pod/client", Run(["curl", "-s", "http://nginx/a b"]))"#)]
    #[case("show", "Lab(Show(Show))")]
    fn a_line_is_read(#[case] typed: &str, #[case] expected: &str) {
        let line = line(&words(typed), &Settings::default(), &[]).expect("it is a command");
        assert_eq!(format!("{line:?}"), expected);
    }

    #[rstest]
    #[case("pod/client", "no program to run in pod/client")]
    #[case("shwo", "there is no command `shwo`\nhelp: Did you mean `show`?")]
    #[case("client ls", "there is no command `client`\nhelp: Did you mean `pod/client`?")]
    #[case(
        "curl nginx",
        "there is no command `curl`\nhelp: Run `help` for the commands. A program needs a place before it: `pod/client curl`"
    )]
    #[case("clear", "there is no command `clear`\nhelp: Press Ctrl-L")]
    #[case("link --loss", "a value is required for '--loss <PERCENT>'")]
    fn what_is_wrong_is_said(#[case] typed: &str, #[case] expected: &str) {
        let printed =
            line(&words(typed), &Settings::default(), &["pod/client".to_owned()]).expect_err("it is not a command");
        assert!(printed.errors.contains(expected) && printed.code == 2, "{printed:?}");
    }
}
