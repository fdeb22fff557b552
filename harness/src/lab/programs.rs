//! The programs that a lab calls.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};

use super::LabError;
use super::barrier::{allowed_cpus, allowed_to_thread, leave_cpu, stay_on};
use super::call::{ADMINISTRATORS, CallError, Limits, call};
use super::namespaces::Namespace;
use crate::text::{printable, reason};

/// Finds a program in `PATH` or in the folders of system administration programs.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let files = folders().map(|folder| folder.join(program));
    let (executable, others): (Vec<_>, Vec<_>) =
        files.filter(|file| file.is_file()).partition(|file| access(file, AccessFlags::X_OK).is_ok());
    executable.into_iter().chain(others).next()
}

/// The folders that are searched for programs.
fn folders() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // An empty entry would mean the current directory.
    let named: Vec<PathBuf> = env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty()).collect();
    named.into_iter().chain(ADMINISTRATORS.map(PathBuf::from))
}

/// A `PATH` of this folder, followed by all folders of programs.
pub(crate) fn search_path(first: &Path) -> OsString {
    // Folders of `PATH` have no colon.
    env::join_paths(iter::once(first.to_owned()).chain(folders())).unwrap_or_default()
}

/// Finds a program, or returns an error if it does not exist.
fn located(program: &str) -> Result<PathBuf, LabError> {
    let file = find(program).ok_or_else(|| LabError::Missing {
        program: program.to_owned(),
        path: env::var_os("PATH").filter(|path| !path.is_empty()).map(|path| path.to_string_lossy().into_owned()),
    })?;
    executable(&file).map_err(|error| LabError::NotExecutable {
        program: program.to_owned(),
        why: format!("{}: {}", printable(&file), reason(error)),
    })?;
    Ok(file)
}

/// The bytes of an ELF header that identify its machine: class and byte order; machine (`elf(5)`).
const MACHINE: [std::ops::Range<usize>; 2] = [4..6, 18..20];
const ELF_HEADER: usize = 20;

/// Checks that the kernel can execute a file. A shell would run a file that the kernel rejects as a script.
///
/// # Errors
///
/// The kernel's reason, or that the file is not a regular file: opening a pipe would block.
pub(crate) fn executable(file: &Path) -> io::Result<()> {
    let kind = file.metadata()?;
    if kind.is_dir() {
        return Err(Errno::EISDIR.into());
    }
    if !kind.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    access(file, AccessFlags::X_OK)?;
    let is_usual = match (header(file), header(Path::new("/proc/self/exe"))) {
        (Ok(found), _) if found.starts_with(SCRIPT) => return interpreted(file),
        (Ok(found), Ok(own)) => {
            found.starts_with(b"\x7fELF")
                && MACHINE.iter().all(|range| found.get(range.clone()) == own.get(range.clone()))
        }
        // A file that cannot be read may still be executable.
        (Err(_), _) | (_, Err(_)) => false,
    };
    if is_usual {
        return Ok(());
    }
    let nothing = || Stdio::null();
    let mut tried = Command::new(file).arg("--version").stdin(nothing()).stdout(nothing()).stderr(nothing()).spawn()?;
    tried.kill()?;
    tried.wait().map(drop)
}

/// The first bytes of a script, before the path of its interpreter (`execve(2)`).
const SCRIPT: &[u8] = b"#!";
/// The number of bytes of the first line that the kernel reads.
const FIRST_LINE: u64 = 256;

/// Checks that the interpreter of a script exists: without it, the kernel reports the script itself as missing.
fn interpreted(script: &Path) -> io::Result<()> {
    let mut start = Vec::new();
    File::open(script)?.take(FIRST_LINE).read_to_end(&mut start)?;
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let words = line[SCRIPT.len()..].split(|byte| b" \t".contains(byte)).find(|word| !word.is_empty());
    let interpreter = Path::new(OsStr::from_bytes(words.ok_or(Errno::ENOEXEC)?));
    access(interpreter, AccessFlags::X_OK).map_err(|errno| {
        let why = format!("its interpreter {}: {}", printable(interpreter), reason(io::Error::from(errno)));
        io::Error::new(io::Error::from(errno).kind(), why)
    })
}

fn header(file: &Path) -> io::Result<Vec<u8>> {
    let mut header = Vec::with_capacity(ELF_HEADER);
    File::open(file)?.take(ELF_HEADER as u64).read_to_end(&mut header)?;
    Ok(header)
}

/// The program of util-linux that makes the kernel kill a program when the thread that started it ends.
pub(crate) const KEEPER: &str = "setpriv";

/// The shell that starts the program, independent of `PATH`.
pub(crate) const SHELL: &str = "/bin/sh";

/// A shell script that starts the program in its arguments if svclab, whose PID comes first, is still running: it may have exited before
/// the parent-death signal was set.
const IF_ALIVE: &str = "[ \"$PPID\" = \"$0\" ] && exec \"$@\"";

/// Whether all programs end with this process anyway: the kernel kills all processes of a PID namespace with PID 1, and panics if the
/// host's PID 1 exits.
pub(crate) fn end_with_this_process() -> bool {
    std::process::id() == 1
}

/// Prepares a call of a program that is killed when the calling thread ends, so that a hanging program does not outlive svclab, however
/// svclab exits.
///
/// # Errors
///
/// [`LabError::Missing`] if there is no such program, and [`LabError::NotExecutable`].
pub(crate) fn command(program: &str) -> Result<Command, LabError> {
    if end_with_this_process() {
        return located(program).map(Command::new);
    }
    let mut command = Command::new(located(KEEPER)?);
    command.args(["--pdeathsig", "KILL", "--", SHELL, "-c", IF_ALIVE]);
    command.arg(std::process::id().to_string()).arg(located(program)?);
    Ok(command)
}

/// Starts a program, and returns it with the pipes of its standard input and output.
///
/// # Errors
///
/// If it cannot be started.
pub(crate) fn with_pipes(command: &mut Command) -> io::Result<(Child, ChildStdin, ChildStdout)> {
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    match (process.stdin.take(), process.stdout.take()) {
        (Some(input), Some(output)) => Ok((process, input, output)),
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// The exit codes of a shell if the kernel does not execute a program, or there is none.
const NOT_EXECUTED: [i32; 2] = [126, 127];

/// Runs a program in a namespace with an input text, within limits on its time and output.
///
/// # Errors
///
/// [`LabError::Missing`], [`LabError::NotExecutable`], [`LabError::Program`] if it cannot be run, [`LabError::LimitExceeded`] and
/// [`LabError::Killed`]. The caller checks the exit status.
pub(super) fn run<S: AsRef<OsStr>>(
    namespace: &Namespace,
    program: &str,
    arguments: &[S],
    input: &str,
) -> Result<Output, LabError> {
    let mut command = command(program)?;
    let input = input.as_bytes();
    let output = namespace.run(|| call(command.args(arguments), input, Limits::of(input)))?;
    let output = output.map_err(|error| match error {
        CallError::Io(error) => failed(namespace, program, &reason(error)),
        CallError::TooLong { .. } | CallError::TooMuch { .. } => LabError::LimitExceeded {
            program: program.to_owned(),
            netns: namespace.name().to_owned(),
            how: error.to_string(),
        },
    })?;
    if output.status.code().is_some_and(|code| NOT_EXECUTED.contains(&code)) {
        let said = String::from_utf8_lossy(&output.stderr);
        let why = said.lines().last().unwrap_or("the shell gives no reason").to_owned();
        return Err(LabError::NotExecutable { program: program.to_owned(), why });
    }
    match output.status.signal() {
        Some(signal) => {
            Err(LabError::Killed { program: program.to_owned(), netns: namespace.name().to_owned(), signal })
        }
        None => Ok(output),
    }
}

/// The version that a program prints, if it can be run.
pub(crate) fn version(file: &Path) -> Option<String> {
    said_within(Command::new(file).arg("--version"), Limits::of(b"").time).ok()
}

/// The reason why there is no output of a program.
pub(crate) enum OutputError {
    /// The program did not exit in time.
    TooLong,
    /// The program failed, with the reason in words.
    Failed(String),
}

/// Returns the standard output of a program that exits within a time limit and prints at most 1 MiB.
///
/// # Errors
///
/// How the program failed.
pub(crate) fn said_within(command: &mut Command, time: Duration) -> Result<String, OutputError> {
    let limits = Limits { time, result: 1 << 20, ..Limits::of(b"") };
    let output = call(command, b"", limits).map_err(|error| match error {
        CallError::TooLong { .. } => OutputError::TooLong,
        error => OutputError::Failed(error.to_string()),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let messages = String::from_utf8_lossy(&output.stderr);
    let last = messages.lines().last().map_or_else(String::new, |line| format!(": {line}"));
    Err(OutputError::Failed(format!("{}{last}", output.status)))
}

/// Runs a function, such as the start of a program, on all CPUs instead of the one that a lab's thread is bound to.
pub(crate) fn on_all_cpus<T>(function: impl FnOnce() -> T) -> T {
    let own = allowed_to_thread();
    // If the thread cannot leave its CPU, the program is only slower.
    let _ = leave_cpu();
    let result = function();
    if let Ok([cpu]) = own.as_deref() {
        let _ = stay_on(*cpu);
    }
    result
}

/// Returns the output of a program run in a namespace.
///
/// # Errors
///
/// Those of [`run`], and [`LabError::Program`] if the program fails.
pub(super) fn listing(namespace: &Namespace, program: &str, arguments: &[&str]) -> Result<String, LabError> {
    let output = run(namespace, program, arguments, "")?;
    if !output.status.success() {
        return Err(failed(namespace, program, &String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The error of a program in a namespace.
pub(super) fn failed(namespace: &Namespace, program: &str, message: &dyn std::fmt::Display) -> LabError {
    LabError::Program { program: program.to_owned(), netns: namespace.name().to_owned(), message: message.to_string() }
}

/// The number of parallel calls per CPU. A program that edits rules or connections mostly waits for the kernel.
const CALLS_PER_CPU: usize = 8;

/// Runs calls in parallel: see [`during`].
///
/// # Errors
///
/// The first call's error; the other calls are run all the same.
pub(super) fn at_once<C>(calls: impl IntoIterator<Item = C>) -> Result<(), LabError>
where
    C: FnOnce() -> Result<(), LabError> + Send,
{
    during(|| Ok(()), calls)
}

/// Runs calls of programs in parallel while `meanwhile` runs in the calling thread, and returns what `meanwhile` returns. The programs may
/// use every CPU, although a lab's own thread is bound to one.
///
/// # Errors
///
/// The error of `meanwhile`, otherwise the first error of a call; the other calls are run all the same.
/// [`LabError::Thread`], before anything is done, if not even one thread can be started.
pub(super) fn during<C, T>(
    meanwhile: impl FnOnce() -> Result<T, LabError>,
    calls: impl IntoIterator<Item = C>,
) -> Result<T, LabError>
where
    C: FnOnce() -> Result<(), LabError> + Send,
{
    let calls: Vec<C> = calls.into_iter().collect();
    let limit = allowed_cpus().map_or(1, |cpus| cpus.len()) * CALLS_PER_CPU;
    let threads = calls.len().min(limit);
    let queue = Mutex::new(calls.into_iter().enumerate());
    thread::scope(|scope| {
        let begin = || thread::Builder::new().spawn_scoped(scope, || work_off(&queue));
        // The threads that could be started do all of the work.
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

/// Runs one call after the other until none is left, and returns the errors, each with the call's number.
fn work_off<C>(queue: &Mutex<impl Iterator<Item = (usize, C)>>) -> Vec<(usize, LabError)>
where
    C: FnOnce() -> Result<(), LabError>,
{
    // If this is not allowed, the programs share the lab's CPU.
    let _ = leave_cpu();
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    iter::from_fn(next).filter_map(|(index, call)| call().err().map(|error| (index, error))).collect()
}

/// Waits for a thread and returns its result.
pub(super) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;

    use super::super::barrier::cpus_of;
    use super::*;

    #[test]
    fn a_program_in_the_path_is_found() {
        let found = find("sh").expect("every system has a shell");
        assert!(found.ends_with("sh") && found.is_absolute(), "{found:?}");
    }

    #[test]
    fn a_call_may_use_all_cpus() {
        use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
        use nix::unistd::Pid;
        let this_thread = Pid::from_raw(0);
        let allowed = allowed_cpus().expect("the process has cpus");
        let mut one = CpuSet::new();
        one.set(allowed[0]).expect("it exists");
        sched_setaffinity(this_thread, &one).expect("this thread can be bound");
        let seen = Mutex::default();
        let look = || {
            let cpus = sched_getaffinity(this_thread).expect("a thread has cpus");
            *seen.lock().expect("no thread panics") = cpus_of(&cpus);
            Ok(())
        };
        at_once([look]).expect("it is carried out");
        assert_eq!(*seen.lock().expect("no thread panics"), allowed);
    }

    /// All of a thousand calls are run, but never all at the same time; the first error is returned.
    #[test]
    fn not_all_calls_are_under_way_at_once() {
        let limit = allowed_cpus().expect("the process has cpus").len() * CALLS_PER_CPU;
        let (running, most, ended) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let (running, most, ended) = (&running, &most, &ended);
        let calls = (0..1000).map(|number| {
            move || {
                most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                thread::yield_now();
                running.fetch_sub(1, SeqCst);
                ended.fetch_add(1, SeqCst);
                if number % 300 == 299 { Err(LabError::Unknown { netns: number.to_string() }) } else { Ok(()) }
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
        let error = error.to_string();
        assert!(error.starts_with("svclab-knows-no-such-program is not installed: it is in none of "), "{error}");
    }

    /// A shell would run each of them as a script, and the empty one with success.
    #[rstest::rstest]
    #[case::empty(b"")]
    #[case::text(b"touch surprise\n")]
    #[case::other_machine(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xff\xff")]
    fn what_the_kernel_does_not_execute_is_reported(#[case] content: &[u8]) {
        let file = env::temp_dir().join(format!("svclab-no-program-{}-{}", content.len(), std::process::id()));
        std::fs::write(&file, content).expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("its own file");
        let error = executable(&file).expect_err("it is not a program");
        assert_eq!(error.raw_os_error(), Some(nix::libc::ENOEXEC), "{error}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("its own file");
        assert_eq!(executable(&file).expect_err("no one may").kind(), io::ErrorKind::PermissionDenied);
        std::fs::remove_file(&file).expect("its own file");
    }
    #[rstest::rstest]
    #[case::no_interpreter(b"#! /nowhere/sh -e\n", "its interpreter /nowhere/sh: no such file or directory")]
    #[case::interpreter_is_data(b"#!/etc/passwd\n", "its interpreter /etc/passwd: permission denied")]
    #[case::no_name(b"#!\n", "exec format error")]
    fn a_script_needs_its_interpreter(#[case] content: &[u8], #[case] message: &str) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("script");
        std::fs::write(&file, content).expect("its own file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("its own file");
        assert_eq!(reason(executable(&file).expect_err("it cannot be executed")), message);
    }

    #[test]
    fn what_is_no_regular_file_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(reason(executable(folder.path()).expect_err("a folder")), "is a directory");
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o755)).expect("a pipe");
        assert_eq!(reason(executable(&pipe).expect_err("a pipe")), "not a regular file");
    }
}
