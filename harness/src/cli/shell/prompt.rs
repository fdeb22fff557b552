//! The prompt: a line editor with completion and history.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, fs};

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{
    Cmd, CompletionType, ConditionalEventHandler, Config, Context, Editor, Event, EventContext, EventHandler, Helper,
    KeyEvent, RepeatCount,
};

use super::super::{Exit, terminal};
use super::front::{End, Front};
use svclab::shell::{Access, Input};
use svclab::text::{harmless, reason};

/// The prompt.
const PROMPT: &str = "svclab> ";
/// The end of a line that continues in the next one, as long commands in reports do.
const CONTINUED: &str = " \\";
/// Maximum number of lines in the history.
const LINES: usize = 1000;

/// Executes typed lines until the shell is left; the result is that of the last one.
pub(super) fn prompt(front: &Front<'_>) -> Exit {
    let config = Config::builder().completion_type(CompletionType::List).max_history_size(LINES);
    let config = config.map(rustyline::config::Builder::build).unwrap_or_default();
    let editor = Editor::<Line<'_>, FileHistory>::with_config(config);
    let mut editor = match editor {
        Ok(editor) => editor,
        Err(error) => {
            front.console.complain(format!("the terminal cannot be used: {}", reason(error)));
            return Exit::Environment;
        }
    };
    let is_cleared = Arc::new(AtomicBool::new(false));
    let clears = EventHandler::Conditional(Box::new(ClearsLine(Arc::clone(&is_cleared))));
    editor.bind_sequence(KeyEvent::ctrl('C'), clears);
    // The editor would return an error.
    editor.bind_sequence(KeyEvent::ctrl('\\'), Cmd::Noop);
    if front.has_lab {
        editor.bind_sequence(KeyEvent::ctrl('Z'), Cmd::Noop);
    }
    let colours = front.console.color;
    editor.set_helper(Some(Line { access: front.access, files: FilenameCompleter::new(), colours }));
    let history = history();
    if let Some(history) = &history {
        // The first shell has no history.
        let _ = editor.load_history(history);
    }
    terminal::keep_modes();
    let mut last = Exit::Held;
    loop {
        match editor.readline(PROMPT) {
            Ok(_) if is_cleared.swap(false, Ordering::Relaxed) => {}
            Ok(text) => {
                let text = text.replace(&format!("{CONTINUED}\n"), "");
                let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
                for line in &lines {
                    // Several lines were pasted at once: what follows belongs to this one.
                    if lines.len() > 1 {
                        front.console.text(format!("{PROMPT}{}\n", harmless(line, false)));
                    }
                    // Two shells append their own lines to one file; a history that cannot be written is not a reason to stop.
                    let _ = editor.add_history_entry(*line);
                    history.iter().for_each(|history| _ = editor.append_history(history));
                    match front.line(line, Input::Same) {
                        End::Of(exit) => last = exit,
                        End::Shell(exit) => return if exit == Exit::Held { last } else { exit },
                    }
                }
            }
            Err(ReadlineError::Eof) => return last,
            // The terminal is gone.
            Err(_) => return Exit::Environment,
        }
    }
}

/// Returns the history file, below `XDG_STATE_HOME`.
fn history() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    let folder = state.join("svclab");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    let history = folder.join("history");
    // Reading a pipe or a device could block forever.
    fs::metadata(&history).map_or(true, |found| found.is_file()).then_some(history)
}

/// Makes Ctrl-C discard the line. Later keys are kept, which an interrupt of the editor would discard.
struct ClearsLine(Arc<AtomicBool>);

impl ConditionalEventHandler for ClearsLine {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, _: &EventContext<'_>) -> Option<Cmd> {
        self.0.store(true, Ordering::Relaxed);
        Some(Cmd::AcceptLine)
    }
}

/// Completion and hints for a line.
struct Line<'a> {
    access: &'a dyn Access,
    files: FilenameCompleter,
    colours: bool,
}

impl Helper for Line<'_> {}
impl Hinter for Line<'_> {
    type Hint = String;
}

impl Validator for Line<'_> {
    fn validate(&self, typed: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let goes_on = typed.input().ends_with(CONTINUED);
        Ok(if goes_on { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Highlighter for Line<'_> {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        if self.colours { Cow::Owned(format!("\x1b[1m{prompt}\x1b[0m")) } else { Cow::Borrowed(prompt) }
    }
}

impl Completer for Line<'_> {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, context: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..at];
        let completion = self.access.complete(typed);
        if completion.is_file || completion.is_program && typed[completion.start..].contains('/') {
            return self.files.complete(line, at, context);
        }
        let programs = if completion.is_program { programs(&typed[completion.start..]) } else { Vec::new() };
        let pair = |word: String| Pair { display: harmless(&word, false), replacement: word + " " };
        Ok((completion.start, completion.words.into_iter().chain(programs).map(pair).collect()))
    }
}

/// Returns the programs whose names start with a word.
fn programs(start: &str) -> Vec<String> {
    let path: OsString = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).filter_map(|folder| fs::read_dir(folder).ok());
    let names = folders.flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<String> = names.filter(|name| name.starts_with(start)).chain(["get".to_owned()]).collect();
    found.retain(|name| name.starts_with(start));
    found.sort();
    found.dedup();
    found
}
