//! Where text goes, and whether it has colours.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use clap::{Args, ValueEnum};

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Say more: once for what was left out and why.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Say only what is wrong.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Whether to use colours; `auto` uses them on a terminal, unless NO_COLOR is set.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

/// Whether to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ColorChoice {
    Auto,
    Always,
    Never,
}

/// Standard output and standard error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Console {
    /// Whether text on standard output has colours.
    pub(crate) color: bool,
    /// Whether text on standard error has colours.
    pub(crate) error_color: bool,
    /// How much more than usual is said.
    pub(crate) verbose: u8,
    /// Whether only what is wrong is said.
    pub(crate) quiet: bool,
}

impl Console {
    /// As the options and the environment have it.
    pub(crate) fn new(args: &OutputArgs) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let color = |terminal: bool| match args.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && !no_color,
        };
        Self {
            color: color(io::stdout().is_terminal()),
            error_color: color(io::stderr().is_terminal()),
            verbose: args.verbose,
            quiet: args.quiet,
        }
    }

    /// Writes a line of the result. A reader that went away (`| head`) is no failure.
    pub(crate) fn line(&self, text: impl Display) {
        let _ = writeln!(io::stdout().lock(), "{text}");
    }

    /// Writes text that has its own line ends.
    pub(crate) fn text(&self, text: impl Display) {
        let _ = write!(io::stdout().lock(), "{text}");
    }

    /// Writes a line that only informs; not with `--quiet`.
    pub(crate) fn inform(&self, text: impl Display) {
        if !self.quiet {
            self.line(text);
        }
    }

    /// Writes a line of what is wrong.
    pub(crate) fn complain(&self, text: impl Display) {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}
