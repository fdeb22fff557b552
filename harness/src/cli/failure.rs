//! Failures of commands.

use std::io::{self, ErrorKind};

use super::console::Console;
use super::{Exit, diagnostics};
use svclab::input::Diagnostics;
use svclab::text::one_line;

/// The reason why a command has no result to print.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the input is invalid")]
    Input(Box<Diagnostics>),
    #[error("{message}\nhelp: {help}")]
    Other { message: String, help: String, exit: Exit },
    #[error("the error has been reported")]
    Reported(Exit),
}

impl Failure {
    pub(super) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::ending_with(Exit::Input, message, help)
    }

    /// Returns a failure to write output. `help` is for errors other than a lack of space.
    pub(super) fn unwritten(message: impl Into<String>, error: &io::Error, help: &str) -> Self {
        let help = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "Free space there, or name a place on another file system."
            }
            _ => help,
        };
        Self::ending_with(Exit::Environment, message, help)
    }

    fn ending_with(exit: Exit, message: impl Into<String>, help: impl Into<String>) -> Self {
        let [message, help] = [message.into(), help.into()].map(|text| one_line(&text).into_owned());
        Self::Other { message, help, exit }
    }

    /// Prints the failure; returns the exit code of the command.
    pub(super) fn report(self, console: &Console) -> Exit {
        match self {
            Self::Input(found) => {
                diagnostics::show(&found, console);
                Exit::Input
            }
            Self::Other { exit, .. } => {
                console.complain(self);
                exit
            }
            Self::Reported(exit) => exit,
        }
    }
}

impl From<Diagnostics> for Failure {
    fn from(diagnostics: Diagnostics) -> Self {
        Self::Input(Box::new(diagnostics))
    }
}

impl From<Exit> for Failure {
    fn from(exit: Exit) -> Self {
        Self::Reported(exit)
    }
}
