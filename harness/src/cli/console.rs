//! Standard output and standard error: colours, widths, escaping.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::Exit;
use super::closed_stdout::checked;
use svclab::environment::Environment;
use svclab::output;
use svclab::page::{Detail, Settings, wrapped};
use svclab::text::{harmless, visible, without_commands};

/// The heading of the global options: without one they would be listed among a command's own.
const HEADING: &str = "Output options";

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print more: settings without effect, the path of every packet, all rows of long tables.
    #[arg(short, long, global = true, help_heading = HEADING, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Print only failures and errors.
    #[arg(short, long, global = true, help_heading = HEADING, conflicts_with = "verbose")]
    quiet: bool,
    /// When to use colours; `auto` uses them on a terminal unless NO_COLOR is set.
    #[arg(long, global = true, help_heading = HEADING, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

/// Whether to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ColorChoice {
    Auto,
    Always,
    Never,
}

/// Standard output and standard error. Control characters are escaped in all output, except in data for another program.
#[derive(Debug)]
pub(crate) struct Console {
    /// Whether text on standard output has colours.
    pub(crate) color: bool,
    /// Whether text on standard error has colours.
    pub(crate) error_color: bool,
    /// The number of `-v` options.
    pub(crate) verbose: u8,
    /// Whether only failures and errors are printed.
    pub(crate) quiet: bool,
    /// The widths of standard output and of standard error, if known.
    columns: [Option<usize>; 2],
    /// Whether standard output is reserved for a document, so that everything else goes to standard error.
    is_lent: AtomicBool,
    /// The line that the next text starts with.
    heading: Mutex<Option<String>>,
    /// The first error of writing to standard output.
    broken: Mutex<Option<io::Error>>,
}

impl Console {
    /// Creates the console from options and environment.
    pub(crate) fn new(args: &OutputArgs) -> Self {
        let color = |terminal: bool| match args.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => has_colours(terminal),
        };
        Self {
            color: color(io::stdout().is_terminal()),
            error_color: color(io::stderr().is_terminal()),
            verbose: args.verbose,
            quiet: args.quiet,
            columns: [columns(io::stdout()), columns(io::stderr())],
            is_lent: AtomicBool::new(false),
            heading: Mutex::default(),
            broken: Mutex::default(),
        }
    }

    /// Returns the settings of pages for standard output.
    pub(crate) fn settings(&self) -> Settings {
        let detail = match (self.quiet, self.verbose) {
            (true, _) => Detail::Quiet,
            (false, 0) => Detail::Normal,
            (false, _) => Detail::Verbose,
        };
        let settings = Settings { colours: self.color, detail, ..Settings::default() };
        settings.fitting(self.columns[0])
    }

    /// Returns the width of messages on standard error, if known.
    pub(crate) fn error_width(&self) -> Option<usize> {
        self.columns[1].map(|columns| Settings::default().fitting(Some(columns)).width)
    }

    /// Writes a line of the result, wrapped to the width of a page.
    pub(crate) fn line(&self, text: impl Display) {
        self.text(wrapped(&text.to_string(), self.settings().width) + "\n");
    }

    /// Sets a line that precedes the next text; if no text follows, it is not written.
    pub(crate) fn head(&self, line: String) {
        *self.heading.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
    }

    /// Writes text that contains its own line ends. [`Self::finish`] reports write errors.
    pub(crate) fn text(&self, text: impl Display) {
        let mut text = text.to_string();
        if text.is_empty() {
            return;
        }
        if let Some(line) = self.heading.lock().unwrap_or_else(PoisonError::into_inner).take() {
            text.insert_str(0, &(line + "\n"));
        }
        if self.is_lent.load(Ordering::Relaxed) {
            let _ = io::stderr().lock().write_all(harmless(&text, self.error_color).as_bytes());
        } else {
            self.keep(checked(io::stdout().lock().write_all(harmless(&text, self.color).as_bytes())));
        }
    }

    /// Returns whether standard output can no longer be written, for example because its reader has exited.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Writes workflow commands for GitHub Actions.
    pub(crate) fn commands(&self, text: &str) {
        self.keep(checked(io::stdout().lock().write_all(visible(text, false).as_bytes())));
    }

    /// Writes a command's result as JSON, in the envelope that names its environment.
    ///
    /// # Errors
    ///
    /// If the JSON cannot be written.
    pub(crate) fn json(&self, command: &str, environment: &Environment, result: impl Serialize) -> Result<(), Exit> {
        let text = environment.envelop(command, result).map_err(|error| {
            self.complain(format!("the result cannot be written as JSON: {error}"));
            Exit::Internal
        })?;
        self.text(text);
        Ok(())
    }

    /// Reserves standard output for a document: from now on everything else goes to standard error.
    pub(crate) fn lend_stdout(&self) {
        self.is_lent.store(true, Ordering::Relaxed);
    }

    /// Writes the document that standard output was reserved for, unchanged.
    ///
    /// # Errors
    ///
    /// If standard output cannot be written.
    pub(crate) fn document(&self, text: &str) -> io::Result<()> {
        checked(output::write_stdout(text))
    }

    /// Writes data that another program may read: unchanged, except on a terminal, where text is escaped. In a job of GitHub Actions, a pipe may
    /// lead to the log, so that workflow commands are escaped in it. [`Self::finish`] reports write errors.
    pub(crate) fn data(&self, bytes: &[u8]) {
        let stdout = io::stdout();
        let may_be_log = || std::env::var_os("GITHUB_ACTIONS").is_some() && !output::is_regular_stdout();
        match str::from_utf8(bytes) {
            Ok(text) if stdout.is_terminal() => self.text(text),
            Ok(text) if may_be_log() => {
                self.keep(checked(stdout.lock().write_all(without_commands(text).as_bytes())));
            }
            _ => self.keep(checked(stdout.lock().write_all(bytes))),
        }
    }

    /// Writes an informational line; nothing with `--quiet`.
    pub(crate) fn inform(&self, text: impl Display) {
        if !self.quiet {
            self.line(text);
        }
    }

    /// Writes a note to standard error, where it is not part of the result; nothing with `--quiet`.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.quiet {
            self.complain(text);
        }
    }

    /// Writes an error message to standard error, wrapped if its width is known.
    pub(crate) fn complain(&self, text: impl Display) {
        let text = text.to_string();
        self.excerpt(match self.error_width() {
            Some(width) => wrapped(&text, width),
            None => text,
        });
    }

    /// Writes an error message with lines of a file to standard error. A failure to write it is ignored.
    pub(crate) fn excerpt(&self, text: impl Display) {
        let text = text.to_string();
        let _ = writeln!(io::stderr().lock(), "{}", harmless(&text, self.error_color));
    }

    /// Flushes standard output.
    ///
    /// # Errors
    ///
    /// The first error of writing to standard output.
    pub(crate) fn finish(&self) -> io::Result<()> {
        self.keep(io::stdout().lock().flush());
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    fn keep(&self, written: io::Result<()>) {
        if let Err(error) = written {
            self.broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }
}

/// Returns whether text has colours by default: on a terminal, unless the environment has `NO_COLOR`.
pub(super) fn has_colours(is_terminal: bool) -> bool {
    is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Returns the width of a terminal; the environment's `COLUMNS` takes precedence, as in git and ls.
fn columns(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let wanted = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
    wanted.or_else(|| terminal_size::terminal_size_of(stream).map(|(width, _)| width.0.into()))
}
