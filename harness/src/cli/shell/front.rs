//! The front end of a shell: prints the results of commands, and runs programs in places.

use std::env;
use std::io::{self, Write};
use std::path::Path;

use super::super::console::Console;
use super::super::{Exit, diagnostics};
use super::operator::operator;
use svclab::input::{read_argument, unreadable};
use svclab::output;
use svclab::shell::{Access, Capturing, Input, PlaceNamespaces, PlaceTask, Printed, Reply, View, file_to_read};
use svclab::text::{grouped, printable, reason};

/// A front end of a shell.
#[derive(Clone, Copy)]
pub(super) struct Front<'f> {
    pub(super) access: &'f dyn Access,
    pub(super) console: &'f Console,
    /// Whether the lab belongs to this process, and stays up for others: then Ctrl-Z does not stop the process.
    pub(super) has_lab: bool,
    /// Whether there are several lines, so that exit codes must be printed.
    pub(super) has_lines: bool,
}

/// Prints why Ctrl-Z has not stopped svclab.
pub(super) fn say_not_stopped() {
    let text = "Ctrl-Z stops nothing here: the lab would stop with it, for other terminals too. Ctrl-C ends a command.";
    // If the terminal is gone, nothing reads the message.
    let _ = writeln!(io::stderr(), "\n{text}");
}

/// Maximum length of a line in bytes: a longer one was not typed, and would take long to parse.
const LONGEST_LINE: usize = 1 << 16;

/// The exit code of a command that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

/// What ends with a command.
pub(super) enum End {
    /// Itself.
    Of(Exit),
    /// The front end.
    Shell(Exit),
}

impl Front<'_> {
    /// Executes a single command. A command given as a single word is parsed as a line.
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

    /// Executes a line.
    pub(super) fn line(&self, line: &str, input: Input) -> End {
        if line.len() > LONGEST_LINE {
            let longest = grouped(LONGEST_LINE as u64);
            let words = format!(
                "a line of {} bytes is not a command\nhelp: Write at most {longest}.",
                grouped(line.len() as u64)
            );
            self.console.complain(words);
            return End::Of(Exit::Input);
        }
        match shlex::split(line) {
            Some(words) => {
                if let Some(operator) = operator(line) {
                    let place = words.first().filter(|first| first.contains('/')).map_or("PLACE", String::as_str);
                    self.console.complain(format!(
                        "`{operator}` is not supported as an operator: a line is one command\nhelp: Let a shell do it: `{place} sh -c '...'`; or use `svclab exec` in another terminal."
                    ));
                    return End::Of(Exit::Input);
                }
                self.words(&words, input)
            }
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
        match self.access.execute(words, &view) {
            Reply::Exit => End::Shell(Exit::Held),
            Reply::Gone(printed) => End::Shell(self.show(&printed)),
            Reply::Printed(printed) => End::Of(self.show(&printed)),
            Reply::PlaceTask(namespaces, task) => End::Of(match task {
                PlaceTask::Run(program) => self.program(&namespaces, &program, input),
                PlaceTask::Get(url) => self.show(&namespaces.get(&url)),
                PlaceTask::Capture { file, count } => {
                    let under_way = Capturing::begin();
                    self.console.complain(format!("capturing in {}; Ctrl-C ends", namespaces.name()));
                    let file = file.map(|file| view.folder.join(file));
                    self.show(
                        &namespaces
                            .capture(under_way, (file.as_ref(), count), &mut |line| self.console.text(line + "\n")),
                    )
                }
            }),
        }
    }

    fn program(&self, namespaces: &PlaceNamespaces, program: &[String], input: Input) -> Exit {
        let stays: &(dyn Fn() + Sync) = &say_not_stopped;
        match namespaces.run(program, input, self.has_lab.then_some(stays)) {
            Ok(code) => {
                if self.has_lines && ![0, INTERRUPTED].contains(&code) {
                    self.console.complain(format!("exit code {code}"));
                }
                exit(code)
            }
            Err(printed) => self.show(&printed),
        }
    }

    /// Reads the input file of a command.
    fn read(&self, words: &[String], input: Input) -> Result<Option<String>, Exit> {
        let Some(file) = file_to_read(words) else { return Ok(None) };
        if file.as_os_str() != "-" {
            return read_argument(&file).map(Some).map_err(|error| self.unreadable(&file, &error));
        }
        if input == Input::Nothing {
            self.console.complain("standard input contains the commands\nhelp: Name a file.");
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
