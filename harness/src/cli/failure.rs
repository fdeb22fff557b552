//! Why a command has nothing to print.

use super::console::Console;
use super::{Exit, diagnostics};
use svclab::input::Diagnostics;
use svclab::text::one_line;

/// Why there is nothing to print.
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

    /// A failure to write output.
    pub(super) fn unwritten(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::ending_with(Exit::Environment, message, help)
    }

    fn ending_with(exit: Exit, message: impl Into<String>, help: impl Into<String>) -> Self {
        let [message, help] = [message.into(), help.into()].map(|text| one_line(&text).into_owned());
        Self::Other { message, help, exit }
    }

    /// Shows what is wrong, and says how the command ends by that.
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
