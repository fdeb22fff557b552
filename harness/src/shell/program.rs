//! Runs real programs in a place of a lab.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg, raise};
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

use super::namespaces::PlaceNamespaces;
use super::reply::Printed;
use crate::lab::programs::{self, KEEPER};
use crate::text::reason;

/// The standard input of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// That of svclab.
    Same,
    /// None, because svclab itself reads commands from it.
    Nothing,
}

/// A shell script that starts the program in its arguments if its parent is still running: seen from the inner PID namespace, the parent's
/// PID is 0, while an orphan's parent is PID 1.
const IF_ALIVE: &str = "[ \"$PPID\" = 0 ] && exec \"$@\"";

/// The same for a program that gets the terminal: it stops itself until it is in the foreground.
const ONCE_IN_FOREGROUND: &str = "[ \"$PPID\" = 0 ] && kill -STOP $$ && exec \"$@\"";

/// The exit code of shells if there is no such program.
const NOT_FOUND: u8 = 127;

impl PlaceNamespaces {
    /// Runs a program inside the place, with svclab's output and terminal, until it exits. Returns its exit code, or 128 plus the number of
    /// the signal that killed it. The program is killed when the calling thread or the lab ends. Ctrl-Z stops it together with svclab; if
    /// `stays` is given, that is called instead and nothing is stopped.
    ///
    /// # Errors
    ///
    /// If there is no such program, or it cannot be started.
    pub fn run(&self, words: &[String], input: Input, stays: Option<&(dyn Fn() + Sync)>) -> Result<u8, Printed> {
        let Some((program, arguments)) = words.split_first() else { return Ok(0) };
        let file = programs::find(program).or_else(|| program.contains('/').then(|| program.into()));
        let Some(file) = file else { return Err(not_found(program)) };
        let keeper = programs::find(KEEPER).ok_or_else(|| not_found(KEEPER))?;
        let mut command = Command::new(keeper);
        let gets_terminal = input == Input::Same && is_in_foreground(io::stdin().as_fd());
        let script = if gets_terminal { ONCE_IN_FOREGROUND } else { IF_ALIVE };
        command.args(["--pdeathsig", "KILL", "--", "/bin/sh", "-c", script, program]).arg(file).args(arguments);
        command.env("SVCLAB_PLACE", self.name());
        if input == Input::Nothing {
            command.stdin(Stdio::null());
        }
        let ended = self.run_inside(|| follow(&mut command, gets_terminal, stays));
        ended.map_err(|error| Printed {
            errors: format!("{program} cannot be run in {}: {}\n", self.name(), reason(error)),
            code: NOT_FOUND - 1,
            ..Printed::default()
        })
    }
}

fn not_found(program: &str) -> Printed {
    let help = match program {
        "curl" | "wget" => "Install it on this machine, or use `get URL` instead.",
        _ => "Install it on this machine: programs of a lab are those of its host.",
    };
    Printed { errors: format!("{program}: command not found\nhelp: {help}\n"), code: NOT_FOUND, ..Printed::default() }
}

/// Starts a program and waits until it exits. On a terminal it has its own process group in the foreground, so that Ctrl-C ends only the
/// program.
fn follow(command: &mut Command, gets_terminal: bool, stays: Option<&(dyn Fn() + Sync)>) -> io::Result<u8> {
    if !gets_terminal {
        let status = start(command)?.wait()?;
        return Ok(code(status.code(), status.signal()));
    }
    let stdin = io::stdin();
    let terminal = Terminal::of(stdin.as_fd());
    terminal.keep_signals(true);
    let child = start(command.process_group(0));
    terminal.keep_signals(false);
    let child = Pid::from_raw(child?.id().cast_signed());
    let ended = loop {
        match waitpid(child, Some(WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Stopped(_, signal)) => {
                // A program that waits for the terminal continues once it has it. Ctrl-Z also stops svclab if a surrounding shell can
                // resume both and svclab itself has no lab.
                match (signal, stays) {
                    (Signal::SIGTSTP, Some(stays)) => stays(),
                    (Signal::SIGTSTP, None) => {
                        terminal.take();
                        raise(Signal::SIGTSTP)?;
                    }
                    _ => {}
                }
                terminal.give(child)?;
                killpg(child, Signal::SIGCONT)?;
            }
            Ok(WaitStatus::Exited(_, status)) => break code(Some(status), None),
            Ok(WaitStatus::Signaled(_, signal, _)) => break code(None, Some(signal as i32)),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    terminal.take();
    Ok(ended)
}

/// Starts a program with all signals unblocked: svclab blocks some because a thread waits for them, and a child would inherit that.
fn start(command: &mut Command) -> io::Result<Child> {
    let mask = SigSet::thread_get_mask()?;
    SigSet::empty().thread_set_mask()?;
    let child = command.spawn();
    mask.thread_set_mask()?;
    child
}

fn code(code: Option<i32>, signal: Option<i32>) -> u8 {
    let number = code.or_else(|| signal.map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// Whether svclab is in the foreground of the terminal that it reads from.
fn is_in_foreground(stdin: BorrowedFd<'_>) -> bool {
    stdin.is_terminal() && tcgetpgrp(stdin) == Ok(getpgrp())
}

/// The terminal on which svclab is in the foreground.
struct Terminal<'t> {
    stdin: BorrowedFd<'t>,
    settings: Option<nix::sys::termios::Termios>,
}

impl<'t> Terminal<'t> {
    fn of(stdin: BorrowedFd<'t>) -> Self {
        // Block SIGTTOU: the calling thread takes the terminal back from the background, for which it would be stopped.
        let _ = SigSet::from(Signal::SIGTTOU).thread_block();
        Self { stdin, settings: tcgetattr(stdin).ok() }
    }

    /// Turns the signals of Ctrl-C and similar keys off or on: while a program is being started, a signal would end svclab.
    fn keep_signals(&self, on: bool) {
        let Some(mut settings) = self.settings.clone() else { return };
        if on {
            settings.local_flags.remove(LocalFlags::ISIG);
        }
        // If the terminal is gone, there are no keys.
        let _ = tcsetattr(self.stdin, SetArg::TCSANOW, &settings);
    }

    /// Puts a process group in the foreground. A group that has already ended needs no terminal.
    fn give(&self, group: Pid) -> io::Result<()> {
        match tcsetpgrp(self.stdin, group) {
            Ok(()) | Err(Errno::ESRCH | Errno::EPERM) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the terminal back, and restores its settings.
    fn take(&self) {
        // If the terminal is gone, the next read reports it.
        let _ = tcsetpgrp(self.stdin, getpgrp());
        if let Some(settings) = &self.settings {
            let _ = tcsetattr(self.stdin, SetArg::TCSADRAIN, settings);
        }
    }
}
