//! Virtual machines with another kernel, as far as they can be tested without one: a program in place of qemu simulates how they end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rstest::rstest;
use tempfile::TempDir;

const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/seeds/000-foo-three-replicas.yaml");
/// The features that labs need, all built into this kernel.
const BUILTIN: &str = "\
kernel/drivers/virtio/virtio_pci.ko
kernel/drivers/char/virtio_console.ko
kernel/drivers/net/veth.ko
kernel/drivers/net/vxlan/vxlan.ko
kernel/net/bridge/bridge.ko
kernel/net/bridge/br_netfilter.ko
kernel/net/netfilter/nf_conntrack.ko
kernel/net/netfilter/nf_nat.ko
";
/// The script finds its console file in the arguments of qemu. KVM never works.
const CONSOLE: &str = "\
#!/bin/sh
for argument; do
  case $argument in
    kvm) exit 1 ;;
    file:*) console=${argument#file:} ;;
  esac
done
";
/// The longest wait of a test: many times what it takes.
const LIMIT: Duration = Duration::from_secs(60);

/// A kernel, and the program in place of qemu.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new(qemu: &str) -> Self {
        let machine = Self { folder: tempfile::tempdir().expect("a folder") };
        let modules = machine.at("kernel/lib/modules/9.9.9");
        fs::create_dir_all(&modules).expect("its own");
        fs::create_dir_all(machine.at("bin")).expect("its own");
        fs::write(modules.join("modules.builtin"), BUILTIN).expect("its own");
        fs::write(machine.at("kernel/vmlinuz-9.9.9"), image("9.9.9 (a test)")).expect("its own");
        let program = machine.at("bin/qemu-system-x86_64");
        fs::write(&program, format!("{CONSOLE}{qemu}\n")).expect("its own");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its own");
        machine
    }

    fn at(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// `svclab run` on the kernel.
    fn command(&self) -> Command {
        let mut command = self.svclab("run");
        command.arg("--kernel").arg(self.at("kernel"));
        command
    }

    /// svclab with the scenario, where the program is in place of qemu.
    fn svclab(&self, name: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
        command.args([name, SCENARIO]);
        command.env("PATH", format!("{}:{path}", self.at("bin").display())).env("XDG_CACHE_HOME", self.at("cache"));
        command.env("TEST_FOLDER", self.folder.path());
        command
    }
}

/// The start of an image for x86, with a version (Documentation/arch/x86/boot.rst).
fn image(version: &str) -> Vec<u8> {
    let mut image = vec![0; 0x240];
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x20e..0x210].copy_from_slice(&0x40_u16.to_le_bytes());
    image.extend(version.as_bytes());
    image.push(0);
    image
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[rstest]
#[case::panic(
    "echo '[ 3.1] Kernel panic - not syncing: sysrq triggered crash' >\"$console\"",
    "the kernel panicked: sysrq triggered crash\nthe end of its kernel's log:\n  [ 3.1] Kernel panic",
    "Report it to whoever built the kernel"
)]
#[case::warning(
    "{ echo '[ 3.1] WARNING: CPU: 0 PID: 7 at net/core/dev.c:1'; echo '[ 3.1] Kernel panic - not syncing: kernel: panic_on_warn set ...'; } >\"$console\"",
    "the kernel logged a warning: WARNING: CPU: 0 PID: 7 at net/core/dev.c:1\n",
    "Report it to whoever built the kernel"
)]
#[case::no_module(
    "echo 'svclab: the machine is not ready: loading the module veth: Exec format error' >\"$console\"",
    "the machine could not be made ready: loading the module veth: Exec format error\n",
    "whose modules belong to it"
)]
#[case::message_of_qemu(
    "echo 'qemu-system-x86_64: cannot set up guest memory' >&2; exit 1",
    "the machine ended: qemu-system-x86_64: cannot set up guest memory\nits kernel logged nothing",
    "Look at what qemu says"
)]
#[case::killed("kill -KILL $$", "qemu was killed by signal 9\n", "something outside of svclab has ended qemu")]
#[case::no_kernel("exit 0", "the machine ended before its kernel started\n", "it may be damaged")]
fn ends_of_machines_are_told_apart(#[case] qemu: &str, #[case] message: &str, #[case] help: &str) {
    let output = Machine::new(qemu).command().output().expect("svclab starts");
    let error = error(&output);
    assert!(error.starts_with(message) && error.contains(help), "{error}");
    assert_eq!(output.status.code(), Some(3), "{error}");
}

#[rstest]
#[case::no_lab(&["--after=1.33"], 1, 2, "--kernel has no effect: no lab is built\nhelp: Add --live")]
#[case::too_many(&["--live"], 3, 2, "a comparison has two sides\nhelp: Give --kernel once for both sides, or twice.")]
#[case::the_same_rules(&["--live"], 2, 3, "the kernel panicked: by the test\n")]
fn both_sides_of_a_comparison_have_a_kernel(
    #[case] options: &[&str],
    #[case] kernels: usize,
    #[case] code: i32,
    #[case] message: &str,
) {
    let machine = Machine::new("echo '[ 3.1] Kernel panic - not syncing: by the test' >\"$console\"");
    let mut command = machine.svclab("diff");
    command.args(options);
    for _ in 0..kernels {
        command.arg("--kernel").arg(machine.at("kernel"));
    }
    let output = command.output().expect("svclab starts");
    let error = error(&output);
    assert!(error.starts_with(message), "{error}");
    assert_eq!(output.status.code(), Some(code), "{error}");
}

#[test]
fn without_qemu_its_package_is_named() {
    let machine = Machine::new("");
    let output = machine.command().env("PATH", "/nonexistent").output().expect("svclab starts");
    assert_eq!(
        error(&output),
        "qemu-system-x86_64 is not installed\nhelp: Install it: `apt-get install qemu-system-x86` (Fedora: qemu-system-x86-core).\n"
    );
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_qemu_that_cannot_be_started_is_not_reported_as_a_worker() {
    let output = Machine::new("").command().env("TMPDIR", "/nonexistent").output().expect("svclab starts");
    let error = error(&output);
    assert!(error.starts_with("qemu-system-x86_64 cannot be started: "), "{error}");
    assert!(error.contains("help: Allow more processes (`ulimit -u`), and room for its log in TMPDIR"), "{error}");
    assert_eq!(output.status.code(), Some(3), "{error}");
}

#[test]
fn a_module_that_labs_need_is_named() {
    let machine = Machine::new("");
    let builtin: String =
        BUILTIN.lines().filter(|line| !line.contains("veth")).map(|line| format!("{line}\n")).collect();
    fs::write(machine.at("kernel/lib/modules/9.9.9/modules.builtin"), builtin).expect("its own");
    let output = machine.command().output().expect("svclab starts");
    let error = error(&output);
    assert!(error.starts_with("kernel 9.9.9 lacks veth: built neither into it nor as a module\n"), "{error}");
    assert!(error.contains("help: Choose a kernel that is built with CONFIG_VETH, or add its package"), "{error}");
    assert_eq!(output.status.code(), Some(2));
}

#[rstest]
fn a_machine_ends_with_svclab(#[values(Signal::SIGKILL, Signal::SIGINT, Signal::SIGTERM)] signal: Signal) {
    let machine =
        Machine::new("echo $$ >\"$TEST_FOLDER/new\"; mv \"$TEST_FOLDER/new\" \"$TEST_FOLDER/pid\"; exec sleep 1000");
    let mut svclab = machine.command().spawn().expect("svclab starts");
    let pid = waited(|| fs::read_to_string(machine.at("pid")).ok());
    // An exited process may be a zombie, which has no command line.
    let command_line = Path::new("/proc").join(pid.trim()).join("cmdline");
    let runs = || fs::read(&command_line).is_ok_and(|words| !words.is_empty());
    // While a program is replaced by another, it has none either.
    waited(|| runs().then_some(()));
    kill(Pid::from_raw(svclab.id() as i32), signal).expect("it is a child");
    svclab.wait().expect("it is a child");
    waited(|| (!runs()).then_some(()));
    let left: Vec<PathBuf> = ["cache", "kernel", "bin", "pid"].map(|name| machine.at(name)).into();
    let found = fs::read_dir(machine.folder.path()).expect("its own").flatten().map(|entry| entry.path());
    assert_eq!(found.filter(|path| !left.contains(path)).collect::<Vec<_>>(), Vec::<PathBuf>::new());
}

/// Waits for something that another process does.
fn waited<T>(look: impl Fn() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begin.elapsed() < LIMIT, "it does not happen");
        thread::sleep(Duration::from_millis(10));
    }
}
