//! A shell on a terminal: key presses and the screen.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::tcgetattr;
use nix::unistd::Pid;
use rstest::rstest;

use super::{SCENARIO, history};

const PROMPT: &str = "svclab> ";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const CTRL_Z: &str = "\x1a";
/// Ctrl-\, which would end the process by SIGQUIT.
const CTRL_BACKSLASH: &str = "\x1c";
/// The timeout of a test.
const PATIENCE: Duration = Duration::from_secs(60);

/// A shell on its own terminal.
struct Terminal {
    shell: Child,
    keys: File,
    screen: File,
    slave: OwnedFd,
    /// The text on the screen that no test has waited for yet.
    seen: String,
}

/// Both sides of a new terminal, which no child process inherits.
fn pair() -> (OwnedFd, OwnedFd) {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = posix_openpt(flags).expect("a terminal");
    grantpt(&master).expect("its own");
    unlockpt(&master).expect("its own");
    let name = ptsname_r(&master).expect("it has a name");
    let slave = File::options().read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits()).open(name);
    (OwnedFd::from(master), slave.expect("a terminal").into())
}

impl Terminal {
    fn open(state: &Path) -> Self {
        Self::open_on(pair(), state)
    }

    fn open_on(terminal: (OwnedFd, OwnedFd), state: &Path) -> Self {
        Self::start(terminal, state, &[env!("CARGO_BIN_EXE_svclab"), "shell", SCENARIO, "--color", "never"])
    }

    fn start(terminal: (OwnedFd, OwnedFd), state: &Path, command_line: &[&str]) -> Self {
        let mut terminal = Self::starting(terminal, state, command_line);
        terminal.wait_for(PROMPT);
        terminal
    }

    /// The same without waiting for the prompt.
    fn starting((master, slave): (OwnedFd, OwnedFd), state: &Path, command_line: &[&str]) -> Self {
        let own = || Stdio::from(slave.try_clone().expect("a descriptor"));
        // Makes it the terminal of a session of its own in which Ctrl-C ends programs, as a terminal emulator does: what a shell starts in the
        // background ignores SIGINT, what `nohup` starts SIGHUP, and so do the tests in it.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,QUIT,TSTP,HUP", "setsid", "--ctty"]).args(command_line);
        command.env("XDG_STATE_HOME", state).env("TERM", "xterm").stdin(own()).stdout(own()).stderr(own());
        let shell = command.spawn().expect("env of coreutils starts");
        let keys = File::from(master.try_clone().expect("a descriptor"));
        Self { shell, keys, screen: File::from(master), slave, seen: String::new() }
    }

    fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("a terminal");
    }

    /// Waits until a text is on the screen, and returns what came before.
    fn wait_for(&mut self, text: &str) -> String {
        let begin = Instant::now();
        loop {
            if let Some(at) = self.seen.find(text) {
                let before = self.seen[..at].to_owned();
                self.seen.drain(..at + text.len());
                return before;
            }
            assert!(begin.elapsed() < PATIENCE, "no `{text}` in {}", self.seen);
            self.look();
        }
    }

    /// Reads the screen, or waits a moment for it.
    fn look(&mut self) {
        let mut polled = [PollFd::new(self.screen.as_fd(), PollFlags::POLLIN)];
        if poll(&mut polled, PollTimeout::from(100_u8)).expect("a terminal") > 0 {
            let mut buffer = [0; 4096];
            let count = self.screen.read(&mut buffer).expect("a terminal");
            self.seen += &String::from_utf8_lossy(&buffer[..count]);
        }
    }

    /// Waits until the shell has ended; returns its code.
    fn ended(&mut self) -> Option<i32> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.shell.try_wait().expect("a child") {
                return status.code();
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            std::thread::yield_now();
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[test]
fn ctrl_c_interrupts_what_is_under_way_and_ctrl_d_leaves() {
    let state = tempfile::tempdir().expect("a folder");
    let mut terminal = Terminal::open(state.path());
    terminal.keys("not finished");
    terminal.wait_for("not finished");
    terminal.keys(CTRL_C);
    terminal.wait_for(PROMPT);
    terminal.keys(&format!("not finished either{CTRL_C}pod/client echo typed ahead\r"));
    terminal.wait_for("\ntyped ahead\r\n");
    terminal.wait_for(PROMPT);
    // No shells: dash loses a SIGINT that comes just before it executes a program.
    for endless in ["pod/client tail -f /etc/hosts", "pod/client cat /etc/hosts -"] {
        terminal.keys(&format!("{endless}\r"));
        terminal.wait_for("172.18.0.3 cluster-worker2\r\n");
        terminal.keys(CTRL_C);
        terminal.wait_for(PROMPT);
    }
    terminal.keys("capture pod/client\r");
    terminal.wait_for("capturing in pod/client");
    terminal.keys(CTRL_C);
    terminal.wait_for("captured in pod/client");
    terminal.wait_for(PROMPT);
    terminal.keys("pod/client sh -c 'echo code$((2 + 2)); exit 4'\r");
    terminal.wait_for("code4");
    terminal.wait_for("exit code 4\r\n");
    terminal.wait_for(PROMPT);
    terminal.keys(CTRL_D);
    assert_eq!(terminal.ended(), Some(4));
    let kept = fs::read_to_string(history(state.path())).expect("a history");
    assert!(kept.contains("capture pod/client\n") && !kept.contains("not finished"), "{kept}");
}

/// The surrounding shell keeps the settings of the terminal.
#[rstest]
#[case::at_the_prompt(None)]
#[case::in_a_program(Some("pod/client sh -c 'stty raw -echo; echo begun; exec sleep 1000'"))]
fn sigterm_leaves_the_terminal_as_it_was(#[case] program: Option<&str>) {
    let state = tempfile::tempdir().expect("a folder");
    let (master, slave) = pair();
    let before = tcgetattr(&slave).expect("a terminal");
    let mut terminal = Terminal::open_on((master, slave), state.path());
    if let Some(program) = program {
        terminal.keys(&format!("{program}\r"));
        terminal.wait_for("begun\n");
    }
    kill(Pid::from_raw(terminal.shell.id().try_into().expect("a pid")), Signal::SIGTERM).expect("it runs");
    assert_eq!(terminal.ended(), Some(143));
    assert_eq!(tcgetattr(&terminal.slave).expect("a terminal"), before);
}

/// A lab serves other terminals too, so Ctrl-Z does not stop it, even under a shell with job control.
#[test]
fn ctrl_z_and_ctrl_backslash_leave_the_lab_up() {
    let state = tempfile::tempdir().expect("a folder");
    let around = format!("set -m; '{}' shell '{SCENARIO}' --color never; echo end", env!("CARGO_BIN_EXE_svclab"));
    let mut terminal = Terminal::start(pair(), state.path(), &["sh", "-c", &around]);
    terminal.keys(CTRL_Z);
    terminal.keys(CTRL_BACKSLASH);
    terminal.keys("pod/client sh -c 'echo begun; read word; echo got $word'\r");
    terminal.wait_for("begun\r\n");
    terminal.keys(CTRL_Z);
    terminal.wait_for("Ctrl-Z stops nothing here");
    terminal.keys("on\r");
    terminal.wait_for("got on\r\n");
    terminal.wait_for(PROMPT);
    terminal.keys("capture pod/client\r");
    terminal.wait_for("capturing in pod/client");
    terminal.keys(CTRL_Z);
    terminal.wait_for("Ctrl-Z stops nothing here");
    terminal.keys(CTRL_C);
    terminal.wait_for("captured in pod/client");
    terminal.wait_for(PROMPT);
    terminal.keys(CTRL_D);
    let before = terminal.wait_for("end\r\n");
    assert!(!before.contains("Stopped"), "{before}");
}

/// Every line is a command, and none is lost, whether the terminal marks them as pasted or they arrive as key presses.
#[rstest]
#[case::bracketed("\x1b[200~", "\n", "\x1b[201~\r")]
#[case::as_keys("", "\r", "\r")]
fn pasted_lines_are_commands(#[case] before: &str, #[case] between: &str, #[case] after: &str) {
    let state = tempfile::tempdir().expect("a folder");
    let mut terminal = Terminal::open(state.path());
    let numbers = ["one", "two", "three", "four"];
    let lines: Vec<String> = numbers.iter().map(|number| format!("pod/client echo {number}")).collect();
    terminal.keys(&format!("{before}{}{after}", lines.join(between)));
    for number in numbers {
        terminal.wait_for(&format!("\n{number}\r\n"));
    }
    terminal.wait_for(PROMPT);
    terminal.keys(CTRL_D);
    assert_eq!(terminal.ended(), Some(0));
    let kept = fs::read_to_string(history(state.path())).expect("a history");
    assert!(kept.ends_with(&format!("{}\n", lines.join("\n"))), "{kept}");
}

/// Long commands of reports are printed in several lines.
#[test]
fn a_line_goes_on_behind_a_backslash() {
    let state = tempfile::tempdir().expect("a folder");
    let mut terminal = Terminal::open(state.path());
    terminal.keys("\x1b[200~pod/client echo one \\\n  two\x1b[201~\r");
    terminal.wait_for("\none two\r\n");
    terminal.keys("pod/client echo three \\\r  four\r");
    terminal.wait_for("\nthree four\r\n");
}

/// A scenario in which each test waits for some time.
fn waiting(folder: &Path, tests: &[&str], time: &str) -> String {
    let test = |name: &&str| {
        format!(
            "  - {{name: {name}, steps: [{{wait: {time}}}, {{probe: {{from: node/n1, to: \"node/n1:80\"}}, expect: {{rejected: true}}}}]}}\n"
        )
    };
    let tests: String = tests.iter().map(test).collect();
    let file = folder.join("waiting.yaml");
    fs::write(&file, format!("name: waiting\nnodes: [{{name: n1}}]\ntests:\n{tests}")).expect("its own file");
    file.to_string_lossy().into_owned()
}

/// Ctrl-C in one terminal does not affect a command of another.
#[test]
fn a_capture_ends_alone() {
    let state = tempfile::tempdir().expect("a folder");
    let file = waiting(state.path(), &["first"], "5s");
    let name = format!("capture-{}", std::process::id());
    let svclab = env!("CARGO_BIN_EXE_svclab");
    let mut shell = Terminal::start(pair(), state.path(), &[svclab, "shell", &file, "--name", &name]);
    shell.keys("test\r");
    let mut other = Terminal::start(pair(), state.path(), &[svclab, "attach", &name]);
    other.keys("capture node/n1\r");
    other.wait_for("capturing in node/n1");
    other.keys(CTRL_C);
    other.wait_for("captured in node/n1");
    shell.wait_for("1 test: 1 ok");
}

/// Tests that are not run are not errors.
#[test]
fn ctrl_c_ends_all_tests() {
    let state = tempfile::tempdir().expect("a folder");
    let file = waiting(state.path(), &["first", "second", "third"], "60s");
    let command_line = [env!("CARGO_BIN_EXE_svclab"), "shell", &file, "--color", "never"];
    let mut terminal = Terminal::start(pair(), state.path(), &command_line);
    terminal.keys("test\r");
    let begin = Instant::now();
    while !terminal.seen.contains("interrupted after") && begin.elapsed() < PATIENCE {
        terminal.keys(CTRL_C);
        // With each Ctrl-C the terminal discards what is not on the screen yet, so it gets some time.
        (0..5).for_each(|_| terminal.look());
        // A Ctrl-C before the command belonged to the prompt, and cleared the line.
        if terminal.seen.contains(PROMPT) && !terminal.seen.contains("interrupted after") {
            terminal.wait_for(PROMPT);
            terminal.keys("test\r");
        }
    }
    let before = terminal.wait_for("interrupted after 0 of 3 tests\r\n");
    assert!(!before.contains("ERROR") && !before.contains("waiting"), "{before}");
}

#[test]
fn words_are_completed_by_tab() {
    let state = tempfile::tempdir().expect("a folder");
    let mut terminal = Terminal::open(state.path());
    terminal.keys("pro\tpod/cl\tserv\t\r");
    terminal.wait_for("delivered to pod/nginx");
    terminal.wait_for(PROMPT);
}

/// A program has svclab's own terminal: it sees its size, and that it changes; and svclab has it back afterwards.
#[test]
fn a_program_has_the_terminal() {
    let state = tempfile::tempdir().expect("a folder");
    let mut terminal = Terminal::open(state.path());
    let resized = |terminal: &Terminal, columns: &str| {
        let own = terminal.slave.try_clone().expect("a descriptor");
        let status = Command::new("stty").args(["rows", "30", "columns", columns]).stdin(own).status();
        assert!(status.expect("stty of coreutils starts").success());
    };
    for columns in ["90", "132"] {
        resized(&terminal, columns);
        terminal.keys("pod/client stty size\r");
        terminal.wait_for(&format!("30 {columns}"));
        terminal.wait_for(PROMPT);
    }
    terminal.keys("pod/client sh\r");
    terminal.wait_for("# ");
    terminal.keys("echo in$((1 + 1))side\r");
    terminal.wait_for("in2side");
    terminal.keys("kill -KILL $$\r");
    terminal.wait_for(PROMPT);
    terminal.keys("exit\r");
    assert_eq!(terminal.ended(), Some(137));
}

/// While the lab is being built there is no command to interrupt.
#[test]
fn ctrl_c_ends_a_shell_whose_lab_is_being_built() {
    let state = tempfile::tempdir().expect("a folder");
    let programs = tempfile::tempdir().expect("a folder");
    let program = programs.path().join("iptables-restore");
    let begun = programs.path().join("begun");
    fs::write(&program, format!("#!/bin/sh\ntouch '{}'\nexec sleep 1000\n", begun.display())).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it can be executed");
    let around = format!(
        "PATH='{}':\"$PATH\" exec '{}' shell '{SCENARIO}'",
        programs.path().display(),
        env!("CARGO_BIN_EXE_svclab")
    );
    let mut terminal = Terminal::starting(pair(), state.path(), &["sh", "-c", &around]);
    let begin = Instant::now();
    while !begun.exists() {
        assert!(begin.elapsed() < PATIENCE, "no rules are installed: {}", terminal.seen);
        terminal.look();
    }
    terminal.keys(CTRL_C);
    terminal.wait_for("interrupted: the lab has been removed");
    assert_eq!(terminal.ended(), Some(130));
}

#[test]
fn a_shell_ends_with_its_terminal() {
    let state = tempfile::tempdir().expect("a folder");
    let mut terminal = Terminal::open(state.path());
    terminal.keys("pod/client sh -c 'echo begun; exec sleep 1000'\r");
    terminal.wait_for("begun\r\n");
    // The last descriptors of the terminal's other side are closed.
    let (master, _) = pair();
    terminal.keys = File::from(master.try_clone().expect("a descriptor"));
    terminal.screen = File::from(master);
    assert_eq!(terminal.ended(), None, "SIGHUP ends it");
}
