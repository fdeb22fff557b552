//! The programs that a lab calls.

use std::env;
use std::io::{self, Write};
use std::iter;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use super::LabError;
use super::fence::{allowed_processors, leave_processor};
use super::namespaces::Namespace;

/// Where administrators' programs are; plain users often have none of them in `PATH`.
const ADMINISTRATORS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Where a program is: in `PATH`, or where administrators' programs are.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(ADMINISTRATORS.map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| is_executable(file))
}

/// What lets the kernel end a program with the thread that called it: of util-linux.
pub(crate) const KEEPER: &str = "setpriv";

/// Starts the program in its arguments if svclab, whose process is the first of them, still lives: it may have ended before the
/// kernel knew what to kill with it.
const IF_ALIVE: &str = "[ \"$PPID\" = \"$0\" ] && exec \"$@\"";

/// A call of a program, which is killed when the calling thread ends: so a program that hangs does not outlive svclab, however
/// that ends.
///
/// # Errors
///
/// [`LabError::Missing`] where there is no such program.
pub(crate) fn command(program: &str) -> Result<Command, LabError> {
    let found = |program: &str| find(program).ok_or_else(|| LabError::Missing { program: program.to_owned() });
    let mut command = Command::new(found(KEEPER)?);
    command.args(["--pdeathsig", "KILL", "--", "sh", "-c", IF_ALIVE]);
    command.arg(std::process::id().to_string()).arg(found(program)?);
    Ok(command)
}

/// Runs a program in a namespace, with a text as its input.
///
/// # Errors
///
/// [`LabError::Missing`], [`LabError::Program`] where it cannot be run, and [`LabError::Killed`]. That it failed is for the
/// caller to see.
pub(super) fn run<S: AsRef<std::ffi::OsStr>>(
    namespace: &Namespace,
    program: &str,
    arguments: &[S],
    input: &str,
) -> Result<Output, LabError> {
    let mut command = command(program)?;
    let output = namespace.run(|| feed(command.args(arguments), input.as_bytes()))?;
    let output = output.map_err(|error| failed(namespace, program, &error))?;
    match output.status.signal() {
        Some(signal) => {
            Err(LabError::Killed { program: program.to_owned(), space: namespace.name().to_owned(), signal })
        }
        None => Ok(output),
    }
}

/// What a program prints in a namespace.
///
/// # Errors
///
/// [`LabError::Missing`], and [`LabError::Program`] where it cannot be run or fails.
pub(super) fn listing(namespace: &Namespace, program: &str, arguments: &[&str]) -> Result<String, LabError> {
    let mut command = command(program)?;
    let output = namespace.run(|| command.args(arguments).stdin(Stdio::null()).output())?;
    let output = output.map_err(|error| failed(namespace, program, &error))?;
    if !output.status.success() {
        return Err(failed(namespace, program, &String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
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

/// How many calls are carried out at the same time for each processor. A program that edits rules or connections mostly waits
/// for the kernel.
const CALLS_PER_PROCESSOR: usize = 8;

/// Carries out calls, several at the same time: see [`during`].
///
/// # Errors
///
/// The first of theirs; the other calls are carried out all the same.
pub(super) fn at_once<C>(calls: impl IntoIterator<Item = C>) -> Result<(), LabError>
where
    C: FnOnce() -> Result<(), LabError> + Send,
{
    during(|| Ok(()), calls)
}

/// Carries out calls of programs, several at the same time, while `meanwhile` runs in the calling thread; returns what that
/// returns. The programs may use every processor, though a lab's own thread stays on one.
///
/// # Errors
///
/// That of `meanwhile`, else the first of the calls'; the others are carried out all the same. [`LabError::Thread`] before
/// anything is done, where not one thread can be had.
pub(super) fn during<C, T>(
    meanwhile: impl FnOnce() -> Result<T, LabError>,
    calls: impl IntoIterator<Item = C>,
) -> Result<T, LabError>
where
    C: FnOnce() -> Result<(), LabError> + Send,
{
    let calls: Vec<C> = calls.into_iter().collect();
    let limit = allowed_processors().map_or(1, |processors| processors.len()) * CALLS_PER_PROCESSOR;
    let threads = calls.len().min(limit);
    let queue = Mutex::new(calls.into_iter().enumerate());
    thread::scope(|scope| {
        let begin = || thread::Builder::new().spawn_scoped(scope, || work_off(&queue));
        // Those threads that can be had do the work of all.
        let (begun, refused): (Vec<_>, Vec<_>) = (0..threads).map(|_| begin()).partition(Result::is_ok);
        if let (true, Some(Err(source))) = (begun.is_empty(), refused.into_iter().next()) {
            return Err(LabError::Thread { source });
        }
        let made = meanwhile();
        let failures = begun.into_iter().flatten().flat_map(join);
        let first = failures.min_by_key(|(index, _)| *index);
        made.and_then(|made| first.map_or(Ok(made), |(_, error)| Err(error)))
    })
}

/// Takes one call after the other until none is left; returns those that failed, each with its number.
fn work_off<C>(queue: &Mutex<impl Iterator<Item = (usize, C)>>) -> Vec<(usize, LabError)>
where
    C: FnOnce() -> Result<(), LabError>,
{
    // Where that is not allowed, the programs share the lab's processor.
    let _ = leave_processor();
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    iter::from_fn(next).filter_map(|(index, call)| call().err().map(|error| (index, error))).collect()
}

/// Waits for a thread; returns what it returned.
pub(super) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;

    use super::super::fence::processors_of;
    use super::*;

    #[test]
    fn a_program_in_the_path_is_found() {
        let found = find("sh").expect("every system has a shell");
        assert!(found.ends_with("sh") && found.is_absolute(), "{found:?}");
    }

    #[test]
    fn a_call_may_use_all_processors() {
        use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
        use nix::unistd::Pid;
        let this_thread = Pid::from_raw(0);
        let allowed = allowed_processors().expect("the process has processors");
        let mut one = CpuSet::new();
        one.set(allowed[0]).expect("it exists");
        sched_setaffinity(this_thread, &one).expect("this thread can be bound");
        let seen = Mutex::default();
        let look = || {
            let processors = sched_getaffinity(this_thread).expect("a thread has processors");
            *seen.lock().expect("nobody panics") = processors_of(&processors);
            Ok(())
        };
        at_once([look]).expect("it is carried out");
        assert_eq!(*seen.lock().expect("nobody panics"), allowed);
    }

    /// A thousand calls are all carried out, but never a thousand at the same time; of their errors the first is told.
    #[test]
    fn not_all_calls_are_under_way_at_once() {
        let limit = allowed_processors().expect("the process has processors").len() * CALLS_PER_PROCESSOR;
        let (running, most, ended) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let (running, most, ended) = (&running, &most, &ended);
        let calls = (0..1000).map(|number| {
            move || {
                most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                thread::yield_now();
                running.fetch_sub(1, SeqCst);
                ended.fetch_add(1, SeqCst);
                if number % 300 == 299 { Err(LabError::Unknown { space: number.to_string() }) } else { Ok(()) }
            }
        });
        let error = at_once(calls).expect_err("three of them fail");
        assert_eq!(error.to_string(), "the lab has no network namespace 299");
        assert_eq!(ended.load(SeqCst), 1000);
        assert!((1..=limit).contains(&most.load(SeqCst)), "{most:?} of {limit}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = command("svclab-knows-no-such-program").expect_err("there is no such program");
        assert_eq!(error.to_string(), "svclab-knows-no-such-program is not installed");
    }
}
