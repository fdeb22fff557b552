//! What shows the results of commands, and carries out those that are about a place.

use std::path::Path;
use std::{env, io};

use super::super::console::Console;
use super::super::{Exit, diagnostics};
use svclab::input::{read_argument, unreadable};
use svclab::output;
use svclab::shell::{Access, Errand, Input, Printed, Reply, View, file_to_read, interrupt_here};
use svclab::text::{printable, reason};

/// A front end of a shell.
#[derive(Clone, Copy)]
pub(super) struct Front<'f> {
    pub(super) access: &'f dyn Access,
    pub(super) console: &'f Console,
}

/// What a command has ended.
pub(super) enum End {
    /// Itself.
    Of(Exit),
    /// The front end.
    Shell(Exit),
}

impl Front<'_> {
    /// Carries out a single command. One that was given as a single word is read as a line.
    pub(super) fn only(&self, words: &[String]) -> Exit {
        let end = match words {
            [line] if line.contains(char::is_whitespace) => self.line(line, Input::Same),
            words => self.words(words, Input::Same),
        };
        match end {
            End::Of(exit) => exit,
            End::Shell(exit) => exit,
        }
    }

    /// Carries out a line.
    pub(super) fn line(&self, line: &str, input: Input) -> End {
        match shlex::split(line) {
            Some(words) => self.words(&words, input),
            None => {
                self.console.complain(
                    "a quote is not closed\nhelp: Add the missing `'` or `\"`, or write a backslash before it.",
                );
                End::Of(Exit::Input)
            }
        }
    }

    fn words(&self, words: &[String], input: Input) -> End {
        let file = match self.read(words, input) {
            Ok(file) => file,
            Err(exit) => return End::Of(exit),
        };
        let view = View { settings: self.console.settings(), folder: env::current_dir().unwrap_or_default(), file };
        match self.access.carry_out(words, &view) {
            Reply::Exit => End::Shell(Exit::Held),
            Reply::Gone(printed) => End::Shell(self.show(&printed)),
            Reply::Printed(printed) => End::Of(self.show(&printed)),
            Reply::Errand(door, errand) => End::Of(match errand {
                Errand::Run(program) => match door.run(&program, input) {
                    Ok(code) => exit(code),
                    Err(printed) => self.show(&printed),
                },
                Errand::Get(url) => self.show(&door.get(&url)),
                Errand::Capture { file, count } => {
                    interrupt_here(false);
                    self.console.complain(format!("capturing in {}; Ctrl-C ends", door.name()));
                    let file = file.map(|file| view.folder.join(file));
                    self.show(&door.capture(file.as_ref(), count, &mut |line| self.console.text(line + "\n")))
                }
            }),
        }
    }

    /// Reads the file that a command reads.
    fn read(&self, words: &[String], input: Input) -> Result<Option<String>, Exit> {
        let Some(file) = file_to_read(words) else { return Ok(None) };
        if file.as_os_str() != "-" {
            return read_argument(&file).map(Some).map_err(|error| self.unreadable(&file, &error));
        }
        if input == Input::Nothing {
            self.console.complain("standard input has the commands\nhelp: Name a file.");
            return Err(Exit::Input);
        }
        let stdin = Path::new("/dev/stdin");
        read_argument(stdin).map(Some).map_err(|error| self.unreadable(stdin, &error))
    }

    fn unreadable(&self, file: &Path, error: &io::Error) -> Exit {
        diagnostics::show(&unreadable(file, error), self.console);
        Exit::Input
    }

    fn show(&self, printed: &Printed) -> Exit {
        match &printed.file {
            Some(file) => {
                if let Err(error) = output::replace(file, printed.text.as_bytes()) {
                    self.console.complain(format!("{}: cannot be written: {}", printable(file), reason(&error)));
                    return Exit::Environment;
                }
                self.console.complain(format!("{}: written", printable(file)));
            }
            None => self.console.text(&printed.text),
        }
        let errors = printed.errors.trim_end();
        if !errors.is_empty() {
            self.console.complain(errors);
        }
        exit(printed.code)
    }
}

fn exit(code: u8) -> Exit {
    if code == 0 { Exit::Held } else { Exit::Program(code) }
}
