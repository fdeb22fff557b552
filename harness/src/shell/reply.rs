//! Requests of a front end, and their replies.

use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::namespaces::PlaceNamespaces;
use crate::infer::is_typed;
use crate::input::{Diagnostic, Diagnostics};
use crate::page::Settings;
use crate::report::{Cause, Trouble};
use crate::run::RunError;

/// The commands of a lab, for a front end.
pub trait Access: Send + Sync {
    /// Executes a line's words, and waits for the result.
    fn execute(&self, words: &[String], view: &View) -> Reply;

    /// Returns the completions of the word at the end of a line.
    fn complete(&self, line: &str) -> Completion;

    /// Interrupts the command that runs in the lab.
    fn interrupt(&self);
}

/// The completions of the word at the cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// Where the word starts, in bytes.
    pub start: usize,
    /// The possible words.
    pub words: Vec<String>,
    /// Whether file names are possible.
    pub is_file: bool,
    /// Whether program names are possible.
    pub is_program: bool,
}

/// How a front end shows results, and its working directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The settings of pages.
    pub settings: Settings,
    /// The folder that names of files are relative to.
    pub folder: PathBuf,
    /// The text of the file that the command reads: a lab may not see all files that its front ends see.
    pub file: Option<String>,
}

/// The reply to a command.
#[derive(Debug)]
pub enum Reply {
    /// The command was executed.
    Printed(Printed),
    /// The front end must run a task in a place of the lab.
    PlaceTask(Box<PlaceNamespaces>, PlaceTask),
    /// The front end must end.
    Exit,
    /// The lab has ended, and with it the front end.
    Gone(Printed),
}

/// The output of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Printed {
    /// For standard output, or for a file.
    pub text: String,
    /// The file that the text is for: a lab may not see all files that its front ends see.
    pub file: Option<PathBuf>,
    /// For standard error.
    pub errors: String,
    /// The exit code, as for svclab's commands.
    pub code: u8,
}

/// A task in a place of the lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlaceTask {
    /// Run a program with its arguments.
    Run(Vec<String>),
    /// Get a page by HTTP, as curl does.
    Get(String),
    /// Print packets, and write them to a file.
    Capture {
        /// The file, as pcapng.
        file: Option<PathBuf>,
        /// The maximum number of packets.
        count: Option<u64>,
    },
}

impl Printed {
    /// The result of a command that has succeeded.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Ctrl-C has ended the command.
    pub(super) fn interrupted(errors: impl Into<String>) -> Self {
        Self { errors: errors.into(), code: 128 + Signal::SIGINT as u8, ..Self::default() }
    }

    /// The lab no longer exists.
    pub(super) fn gone() -> Self {
        let errors = "the shell of this lab has ended\nhelp: Start `svclab shell` again.\n".to_owned();
        Self { errors, code: code(Cause::Environment), ..Self::default() }
    }

    /// An error in what was typed.
    pub(super) fn wrong(message: impl std::fmt::Display, help: &str) -> Self {
        Self { errors: format!("{message}\nhelp: {help}\n"), code: code(Cause::Input), ..Self::default() }
    }
}

/// The exit code of a cause: see the list in `svclab --help`.
fn code(cause: Cause) -> u8 {
    match cause {
        Cause::Input => 2,
        Cause::Environment => 3,
        Cause::Internal => 4,
    }
}

impl From<Trouble> for Printed {
    fn from(trouble: Trouble) -> Self {
        Self { errors: format!("{trouble}\n"), code: code(trouble.cause), ..Self::default() }
    }
}

impl From<RunError> for Printed {
    fn from(error: RunError) -> Self {
        error.into_trouble().into()
    }
}

impl From<Diagnostics> for Printed {
    fn from(errors: Diagnostics) -> Self {
        // The typed text needs no place: it is in the line above.
        let is_typed = errors.errors.iter().all(|error| is_typed(&error.span.file));
        let typed = |error: &Diagnostic| {
            let help = error.help.as_ref().map(|help| format!("\nhelp: {help}")).unwrap_or_default();
            format!("{}{help}\n", error.message)
        };
        let errors = if is_typed { errors.errors.iter().map(typed).collect() } else { format!("{errors}\n") };
        Self { errors, code: code(Cause::Input), ..Self::default() }
    }
}
