//! A real program in a place of a lab.

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

/// What a program reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// What svclab reads.
    Same,
    /// Nothing: svclab itself reads commands there.
    Nothing,
}

/// Starts the program in its arguments if its parent still lives: in a PID namespace of its own that is process 0, and a process without a
/// parent has the first one.
const IF_ALIVE: &str = "[ \"$PPID\" = 0 ] && exec \"$@\"";

/// The same for a program that gets the terminal: it waits until it has been given it.
const ONCE_IN_FOREGROUND: &str = "[ \"$PPID\" = 0 ] && kill -STOP $$ && exec \"$@\"";

/// What shells end with where there is no such program.
const NOT_FOUND: u8 = 127;

impl PlaceNamespaces {
    /// Runs a program inside, with svclab's output and terminal, until it ends; returns its exit code, or 128 and the number of the signal that
    /// ended it. It ends with the calling thread, and with the lab. Ctrl-Z stops it and svclab, or calls `stays`, and nothing is stopped.
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

/// Starts a program and waits until it ends. On a terminal it is in a process group of its own, which has the terminal meanwhile: so Ctrl-C
/// ends it alone.
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
                // One that waits for the terminal goes on with it. Ctrl-Z stops svclab as well, where there is a shell around it that
                // can start both again, and no lab in it.
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

/// Starts a program to which all signals come: svclab has a thread that waits for some, and a child inherits that they wait.
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

/// The terminal that svclab is in the foreground of.
struct Terminal<'t> {
    stdin: BorrowedFd<'t>,
    settings: Option<nix::sys::termios::Termios>,
}

impl<'t> Terminal<'t> {
    fn of(stdin: BorrowedFd<'t>) -> Self {
        // The calling thread gives the terminal away and takes it back: in the background it would be stopped for that.
        let _ = SigSet::from(Signal::SIGTTOU).thread_block();
        Self { stdin, settings: tcgetattr(stdin).ok() }
    }

    /// Makes Ctrl-C and its like characters, or signals again: while a program is being started, a signal would end svclab.
    fn keep_signals(&self, on: bool) {
        let Some(mut settings) = self.settings.clone() else { return };
        if on {
            settings.local_flags.remove(LocalFlags::ISIG);
        }
        // A terminal that is gone has no keys.
        let _ = tcsetattr(self.stdin, SetArg::TCSANOW, &settings);
    }

    /// Makes a process group the one in the foreground. One that has ended already needs no terminal.
    fn give(&self, group: Pid) -> io::Result<()> {
        match tcsetpgrp(self.stdin, group) {
            Ok(()) | Err(Errno::ESRCH | Errno::EPERM) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the terminal back, with the settings that it had.
    fn take(&self) {
        // A terminal that is gone cannot be taken, and the next read says so.
        let _ = tcsetpgrp(self.stdin, getpgrp());
        if let Some(settings) = &self.settings {
            let _ = tcsetattr(self.stdin, SetArg::TCSADRAIN, settings);
        }
    }
}
