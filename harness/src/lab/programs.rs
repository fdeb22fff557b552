//! The programs that a lab calls.

use std::env;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::{self, Scope, ScopedJoinHandle};

use super::LabError;
use super::fence::leave_processor;
use super::namespaces::Namespace;

/// Where administrators' programs are; plain users often have none of them in `PATH`.
const ADMINISTRATORS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Where a program is: in `PATH`, or where administrators' programs are.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(ADMINISTRATORS.map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| is_executable(file))
}

/// A call of a program.
///
/// # Errors
///
/// [`LabError::Missing`] where there is no such program.
pub(crate) fn command(program: &str) -> Result<Command, LabError> {
    find(program).map(Command::new).ok_or_else(|| LabError::Missing { program: program.to_owned() })
}

/// Runs a program in a namespace, with a text as its input.
///
/// # Errors
///
/// [`LabError::Missing`], and [`LabError::Program`] where it cannot be run. That it failed is for the caller to see.
pub(super) fn run<S: AsRef<std::ffi::OsStr>>(
    namespace: &Namespace,
    program: &str,
    arguments: &[S],
    input: &str,
) -> Result<Output, LabError> {
    let mut command = command(program)?;
    let output = namespace.run(|| feed(command.args(arguments), input.as_bytes()))?;
    output.map_err(|error| failed(namespace, program, &error))
}

/// The error of a program in a namespace.
pub(super) fn failed(namespace: &Namespace, program: &str, message: &dyn std::fmt::Display) -> LabError {
    LabError::Program { program: program.to_owned(), space: namespace.name().to_owned(), message: message.to_string() }
}

fn feed(command: &mut Command, input: &[u8]) -> io::Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that refuses its input closes it early; what it says then is the better message.
        let _ = stdin.write_all(input);
    }
    child.wait_with_output()
}

/// Starts a thread for calling a program from. A program may use every processor, though the lab's own thread stays on one.
pub(super) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    call: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    scope.spawn(|| {
        // Where that is not allowed, the program shares the lab's processor.
        let _ = leave_processor();
        call()
    })
}

/// Waits for threads; returns what each of them returned.
pub(super) fn join_all<T>(threads: Vec<ScopedJoinHandle<'_, T>>) -> Vec<T> {
    let join = |thread: ScopedJoinHandle<'_, T>| match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    threads.into_iter().map(join).collect()
}

/// Carries out calls, each in a thread of its own, all at the same time.
///
/// # Errors
///
/// The first of theirs; the other calls are carried out all the same.
pub(super) fn at_once<C>(calls: impl IntoIterator<Item = C>) -> Result<(), LabError>
where
    C: FnOnce() -> Result<(), LabError> + Send,
{
    thread::scope(|scope| join_all(calls.into_iter().map(|call| spawn(scope, call)).collect())).into_iter().collect()
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_in_the_path_is_found() {
        let found = find("sh").expect("every system has a shell");
        assert!(found.ends_with("sh") && found.is_absolute(), "{found:?}");
    }

    #[test]
    fn a_call_may_use_all_processors() {
        use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
        use nix::unistd::{Pid, getpid};
        let allowed = sched_getaffinity(getpid()).expect("the process has processors");
        let mut one = CpuSet::new();
        let first = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu) == Ok(true)).expect("it has one");
        one.set(first).expect("it exists");
        sched_setaffinity(Pid::from_raw(0), &one).expect("this thread can be bound");
        let seen = thread::scope(|scope| join_all(vec![spawn(scope, || sched_getaffinity(Pid::from_raw(0)))]));
        assert_eq!(seen, [Ok(allowed)]);
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = command("svclab-knows-no-such-program").expect_err("there is no such program");
        assert_eq!(error.to_string(), "svclab-knows-no-such-program is not installed");
    }
}
