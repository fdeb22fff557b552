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
/// The script finds its accelerator, its console file and the kind of worker in the arguments of qemu.
const ARGUMENTS: &str = "\
#!/bin/sh
for argument; do
  case $argument in
    kvm | tcg) accelerator=$argument ;;
    file:*) console=${argument#file:} ;;
    *' -- worker '*) kind=${argument##* } ;;
  esac
done
";
/// KVM that does not work.
const NO_KVM: &str = "[ $accelerator = tcg ] || exit 1\n";
/// A machine that responds: svclab on this kernel, whose standard input and output are those of qemu, as the ends of the virtio port are.
const RESPONDS: &str = concat!(
    "echo '[ 0.0] Linux version 9.9.9' >\"$console\"\n",
    "[ $(id -u) = 0 ] || set -- unshare --map-root-user --mount\n[ $(id -u) != 0 ] || set --\n",
    "exec \"$@\" ",
    env!("CARGO_BIN_EXE_svclab"),
    " worker $kind"
);
/// The longest wait of a test: many times what it takes.
const LIMIT: Duration = Duration::from_secs(60);

/// A kernel, and the program in place of qemu.
struct Machine {
    folder: TempDir,
}

impl Machine {
    /// A machine for which KVM does not work.
    fn new(qemu: &str) -> Self {
        Self::executed_by(&format!("{NO_KVM}{qemu}"))
    }

    fn executed_by(qemu: &str) -> Self {
        let machine = Self { folder: tempfile::tempdir().expect("a folder") };
        let modules = machine.at("kernel/lib/modules/9.9.9");
        fs::create_dir_all(&modules).expect("its own");
        fs::create_dir_all(machine.at("bin")).expect("its own");
        fs::write(modules.join("modules.builtin"), BUILTIN).expect("its own");
        fs::write(machine.at("kernel/vmlinuz-9.9.9"), image("9.9.9 (a test)")).expect("its own");
        let program = machine.at("bin/qemu-system-x86_64");
        fs::write(&program, format!("{ARGUMENTS}{qemu}\n")).expect("its own");
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

    /// svclab on the kernel, given this many times.
    fn svclab_on(&self, name: &str, times: usize) -> Command {
        let mut command = self.svclab(name);
        (0..times).for_each(|_| _ = command.arg("--kernel").arg(self.at("kernel")));
        command
    }

    /// svclab with the scenario, if the command takes one, where the program is in place of qemu.
    fn svclab(&self, name: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
        command.arg(name);
        if name != "doctor" {
            command.arg(SCENARIO);
        }
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

/// Nested virtualization may fail after the first lines of a kernel's log.
#[rstest]
#[case::aborts("kill -ABRT $$")]
#[case::ends("exit 1")]
fn what_kvm_does_not_execute_is_emulated(#[case] with_kvm: &str) {
    let script = format!(
        "[ $accelerator = tcg ] || {{ echo '[ 0.0] Linux version 9.9.9' >\"$console\"; {with_kvm}; }}\n{RESPONDS}"
    );
    let output = Machine::executed_by(&script).command().output().expect("svclab starts");
    assert_eq!(output.status.code(), Some(0), "{}", error(&output));
    assert!(error(&output).starts_with("KVM does not work here, so kernels are emulated"), "{}", error(&output));
}

/// What KVM executes as far as a panic is the kernel's fault.
#[test]
fn a_panic_with_kvm_is_reported() {
    let script = "echo '[ 3.1] Kernel panic - not syncing: with KVM' >\"$console\"; sleep 1; exit 0";
    let output = Machine::executed_by(script).command().output().expect("svclab starts");
    assert!(error(&output).starts_with("the kernel panicked: with KVM\n"), "{}", error(&output));
}

#[test]
fn a_result_as_json_has_nothing_before_it() {
    let output = Machine::new(RESPONDS).svclab_on("doctor", 1).args(["--format", "json"]).output();
    let output = output.expect("svclab starts");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(json["command"], "doctor");
    assert!(error(&output).starts_with("KVM does not work here"), "{}", error(&output));
}

/// The command that is proposed for a failed probe has the kernel that it failed on.
#[test]
fn a_failed_probe_is_explained_on_its_kernel() {
    let machine = Machine::new(RESPONDS);
    let scenario =
        fs::read_to_string(SCENARIO).expect("it is there").replace("source: preserved", "source: masqueraded");
    let file = machine.at("failing.yaml");
    fs::write(&file, scenario).expect("its own");
    let output = machine.command().arg(&file).output();
    let output = output.expect("svclab starts");
    let text = String::from_utf8_lossy(&output.stdout).replace(" \\\n", " ");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let options = format!("--live --kernel={} -- {}", machine.at("kernel").display(), file.display());
    assert!(words.contains(&options), "{words}");
}

/// Text names the kernel first, as JSON does in its envelope.
#[rstest]
#[case::run("run", &[])]
#[case::verify("verify", &["--service=kube-system/coredns", "--from=pod/client"])]
#[case::mutate("mutate", &["--sample=1"])]
#[case::cascade("cascade", &["--sample=100"])]
#[case::doctor("doctor", &[])]
fn text_names_the_kernel(#[case] command: &str, #[case] options: &[&str]) {
    let output = Machine::new(RESPONDS).svclab_on(command, 1).args(options).output().expect("svclab starts");
    let kernel = nix::sys::utsname::uname().expect("it has a name").release().to_string_lossy().into_owned();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with(&format!("kernel {kernel}\n")), "{text}{}", error(&output));
    assert_eq!(output.status.code(), Some(0), "{text}");
}

/// Several kernels are compared first, by all commands.
#[rstest]
#[case::run("run", &[], "All tests")]
#[case::verify("verify", &["--service=kube-system/coredns", "--from=pod/client"], "All scenarios")]
#[case::mutate("mutate", &["--sample=1"], "All mutants")]
#[case::cascade("cascade", &["--sample=100"], "All samples")]
#[case::doctor("doctor", &[], "All checks")]
fn several_kernels_are_compared(#[case] command: &str, #[case] options: &[&str], #[case] first: &str) {
    let machine = Machine::new(RESPONDS);
    let output = machine.svclab_on(command, 2).args(options).output().expect("svclab starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with(&format!("{first} have the same result on 2 kernels.\n")), "{text}{}", error(&output));
    let heading = format!("\nkernel 9.9.9 ({})\n", machine.at("kernel").display());
    assert_eq!(text.matches(&heading).count(), 2, "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
}

/// The results of the others are not lost.
#[test]
fn a_kernel_of_several_that_does_not_start_is_reported() {
    let panics = "echo '[ 3.1] Kernel panic - not syncing: by the test' >\"$console\"; exit 0";
    let once =
        format!("[ -e \"$TEST_FOLDER/cache/used\" ] || {{ touch \"$TEST_FOLDER/cache/used\"; {panics}; }}\n{RESPONDS}");
    let output = Machine::new(&once).svclab_on("run", 3).output().expect("svclab starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("All tests have the same result on 2 kernels.\n"), "{text}{}", error(&output));
    assert_eq!((text.matches("no result\n").count(), text.matches("2 tests: 2 ok").count()), (1, 2), "{text}");
    assert!(error(&output).contains("): the kernel panicked: by the test\n"), "{}", error(&output));
    assert_eq!(output.status.code(), Some(3), "{text}");
}

#[test]
fn a_kernel_of_several_that_is_not_found_is_an_error_before_any_starts() {
    let machine = Machine::new(RESPONDS);
    let output = machine.svclab_on("run", 1).args(["--kernel", "0.0.1-none"]).output().expect("svclab starts");
    assert!(error(&output).starts_with("there is no kernel `0.0.1-none`"), "{}", error(&output));
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
}

#[rstest]
#[case::format("verify", "--format=json")]
#[case::report("mutate", "--report=json=-")]
#[case::captures("run", "--pcap=/nonexistent")]
#[case::picture("cascade", "--format=svg")]
fn several_kernels_are_compared_as_text(#[case] command: &str, #[case] option: &str) {
    let mut svclab = Machine::new("").svclab_on(command, 2);
    if command == "cascade" {
        svclab.arg("--sample=100");
    }
    let output = svclab.arg(option).output().expect("svclab starts");
    let message = "several kernels can only be compared as text; reports and files cover one kernel\n";
    assert!(
        error(&output).ends_with(&format!(
            "{message}help: Leave out --format and options that write files, or name one kernel.\n"
        )),
        "{}",
        error(&output)
    );
    assert_eq!(output.status.code(), Some(2));
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
