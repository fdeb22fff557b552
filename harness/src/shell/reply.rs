//! What a front end asks, and what it gets.

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

    /// What the word at the end of a line may become.
    fn complete(&self, line: &str) -> Completion;

    /// Ends the command that runs in the lab early.
    fn interrupt(&self);
}

/// What the word under the cursor may become.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// Where the word starts, in bytes.
    pub start: usize,
    /// The words that it may become.
    pub words: Vec<String>,
    /// Whether it may become the name of a file.
    pub is_file: bool,
    /// Whether it may become the name of a program.
    pub is_program: bool,
}

/// How a front end shows results, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// How pages are written.
    pub settings: Settings,
    /// The folder that names of files are relative to.
    pub folder: PathBuf,
    /// The text of the file that the command reads: a lab does not see all files that its front ends see.
    pub file: Option<String>,
}

/// What a command has led to.
#[derive(Debug)]
pub enum Reply {
    /// It was carried out.
    Printed(Printed),
    /// The front end is to do something in a place of the lab.
    PlaceTask(Box<PlaceNamespaces>, PlaceTask),
    /// The front end is to end.
    Exit,
    /// The lab has ended, and with it the front end.
    Gone(Printed),
}

/// What a command prints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Printed {
    /// For standard output, or for a file.
    pub text: String,
    /// The file that the text is for: a lab does not see all files that its front ends see.
    pub file: Option<PathBuf>,
    /// For standard error.
    pub errors: String,
    /// The exit code, as that of svclab's commands.
    pub code: u8,
}

/// Something to do in a place of the lab.
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
        /// How many packets at most.
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

    /// The lab is not there any more.
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
        // What was typed needs no place: it is the line above.
        let is_typed = errors.errors.iter().all(|error| is_typed(&error.span.file));
        let typed = |error: &Diagnostic| {
            let help = error.help.as_ref().map(|help| format!("\nhelp: {help}")).unwrap_or_default();
            format!("{}{help}\n", error.message)
        };
        let errors = if is_typed { errors.errors.iter().map(typed).collect() } else { format!("{errors}\n") };
        Self { errors, code: code(Cause::Input), ..Self::default() }
    }
}
