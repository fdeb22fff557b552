//! What shows the results of commands, and carries out those that are about a place.

use std::env;

use super::super::Exit;
use super::super::console::Console;
use svclab::shell::{Access, Errand, Input, Printed, Reply, View, interrupt_here};

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
        let view = View { settings: self.console.settings(), folder: env::current_dir().unwrap_or_default() };
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

    fn show(&self, printed: &Printed) -> Exit {
        self.console.text(&printed.text);
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
