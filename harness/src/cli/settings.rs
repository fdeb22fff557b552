//! Defaults of options: a flag on the command line, otherwise an environment variable, else `svclab.toml`, otherwise the built-in default.
//!
//! A repository's `svclab.toml` is as untrusted as its scenarios, which come from pull requests. So only options that control how tests are
//! run are taken from it, none that name a program or a file.

use std::env;
use std::path::{Path, PathBuf};

use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction, Command};
use svclab::input::Reach;
use svclab::text::{one_line, printable, reason};
use toml_edit::{Document, Item, Key, Value};

use super::failure::Failure;

/// The name of the file.
const FILE: &str = "svclab.toml";

/// The options that may be set in the file, by command.
const SETTABLE: [(&str, &[&str]); 3] = [
    ("run", &["jobs", "backend", "filter", "tag", "fail-fast", "retries", "timeout", "repeat", "shuffle"]),
    ("verify", &["jobs", "backend"]),
    ("mutate", &["jobs", "backend", "sample", "seed"]),
];

/// Adds defaults from the environment and from the file of the working directory's repository to the command line.
pub(super) fn with_defaults(command: Command) -> Result<Command, Failure> {
    let command = command.mut_args(|arg| from_environment(arg, None)).mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        command.mut_args(|arg| from_environment(arg, Some(&name)))
    });
    match find() {
        None => Ok(command),
        Some(path) => {
            let reading = |error| {
                Failure::new(
                    format!("{}: cannot read the file: {}", printable(&path), reason(&error)),
                    "Make it a regular file in the repository, or remove it.",
                )
            };
            let text = Reach::Repository.reader(&path)(&path).map_err(reading)?;
            from_file(command, &path, &text)
        }
    }
}

/// Returns the environment variable of an option: `SVCLAB_RUN_FAIL_FAST`, or `SVCLAB_COLOR` for an option of every command.
fn variable(arg: &Arg, command: Option<&str>) -> Option<String> {
    let long = arg.get_long().filter(|long| !["help", "version"].contains(long))?;
    let of = if arg.is_global_set() { None } else { command };
    let words = ["svclab"].into_iter().chain(of).chain([long]);
    Some(words.collect::<Vec<_>>().join("_").replace('-', "_").to_ascii_uppercase())
}

/// Adds the environment variable to an option. An empty variable counts as unset, because CI systems set variables to empty values.
fn from_environment(arg: Arg, command: Option<&str>) -> Arg {
    let Some(name) = variable(&arg, command) else { return arg };
    if env::var_os(&name).is_some_and(|value| value.is_empty()) {
        return arg;
    }
    let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
    let arg = if is_switch { arg.value_parser(BoolishValueParser::new()) } else { arg };
    arg.env(name).hide_env_values(true)
}

/// Finds the file: in the working directory, or the nearest above it in the same repository.
fn find() -> Option<PathBuf> {
    let here = env::current_dir().ok()?;
    let root = here.ancestors().find(|above| above.join(".git").exists()).unwrap_or(&here);
    let folders = here.ancestors().take_while(|folder| folder.starts_with(root));
    folders.map(|folder| folder.join(FILE)).find(|file| file.symlink_metadata().is_ok())
}

/// Adds the defaults of a file to the command line.
fn from_file(mut command: Command, path: &Path, text: &str) -> Result<Command, Failure> {
    let file = File { path, text };
    let document = Document::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        file.wrong(at, error.message(), "Write TOML: a table `[run]` with lines like `retries = 1`.")
    })?;
    for (name, item) in document.as_table() {
        let at = document.as_table().key(name).and_then(Key::span).map_or(0, |span| span.start);
        let known = SETTABLE.iter().find(|(known, _)| *known == name);
        let (Some((_, options)), Some(table)) = (known, item.as_table_like()) else {
            let tables = "Use the tables `[run]`, `[verify]` and `[mutate]`.";
            return Err(file.wrong(at, format!("`{name}` is not a command with defaults"), tables));
        };
        for (option, item) in table.iter() {
            let at = table.key(option).and_then(Key::span).map_or(at, |span| span.start);
            if !options.contains(&option) {
                let message = format!("`{option}` cannot be set here");
                let help = format!(
                    "Set one of: {}. Options that name files or programs must be given on the command line.",
                    options.join(", ")
                );
                return Err(file.wrong(at, message, &help));
            }
            let values = values(item).ok_or_else(|| {
                file.wrong(
                    at,
                    format!("`{option}` has a value of an unknown kind"),
                    "Use a string, a number, true, false, or a list of strings.",
                )
            })?;
            check(&command, name, option, &values).map_err(|error| {
                file.wrong(at, error, &format!("Run `svclab help {name}` for the accepted values."))
            })?;
            command = with_default(command, name, option, values);
        }
    }
    Ok(command)
}

/// Converts a value to command-line arguments.
fn values(item: &Item) -> Option<Vec<String>> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.value().clone()),
        Value::Integer(number) => Some(number.value().to_string()),
        Value::Boolean(is) => Some(is.value().to_string()),
        _ => None,
    };
    match item.as_value()? {
        Value::Array(list) => list.iter().map(text).collect(),
        value => text(value).map(|one| vec![one]),
    }
}

/// Checks values as if given on the command line.
fn check(command: &Command, name: &str, option: &str, values: &[String]) -> Result<(), String> {
    let given = values.iter().map(|value| format!("--{option}={value}"));
    let line = ["svclab".to_owned(), name.to_owned()].into_iter().chain(given).chain(["--".to_owned(), "-".to_owned()]);
    match command.clone().try_get_matches_from(line) {
        Ok(_) => Ok(()),
        Err(error) => {
            let rendered = error.render().to_string();
            Err(rendered.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
        }
    }
}

fn with_default(command: Command, name: &str, option: &str, values: Vec<String>) -> Command {
    command.mut_subcommand(name, |subcommand| {
        subcommand.mut_args(|arg| {
            if arg.get_long() == Some(option) {
                arg.default_values(values.clone()).hide_default_value(true)
            } else {
                arg
            }
        })
    })
}

/// The file, for messages.
struct File<'f> {
    path: &'f Path,
    text: &'f str,
}

impl File<'_> {
    fn wrong(&self, at: usize, message: impl AsRef<str>, help: &str) -> Failure {
        let line = self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
        Failure::new(format!("{}:{line}: {}", printable(self.path), one_line(message.as_ref())), help)
    }
}
