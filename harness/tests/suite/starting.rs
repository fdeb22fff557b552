//! Help for getting started: `svclab new`, manual pages, completions.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use rstest::rstest;

fn svclab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments).current_dir(folder).output().expect("svclab starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[rstest]
fn a_new_scenario_runs_as_it_is(#[values("iptables", "nftables")] mode: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let made = svclab(folder.path(), &["new", "first.yaml", "--mode", mode]);
    assert_eq!(text(&made.stdout), "first.yaml: written; `svclab run` runs its tests\n");
    let checked = svclab(folder.path(), &["check", "first.yaml"]);
    assert_eq!(text(&checked.stdout), "1 scenario with 4 tests, no errors\n", "{}", text(&checked.stderr));
    let ran = svclab(folder.path(), &["run", "first.yaml"]);
    assert!(text(&ran.stdout).contains("1 scenario, 4 tests: 4 ok"), "{}", text(&ran.stdout));
    let written = fs::read_to_string(folder.path().join("first.yaml")).expect("the scenario");
    assert!(written.contains(&format!("mode: {mode}")));
    assert_eq!(text(&svclab(folder.path(), &["new", "--mode", mode]).stdout), written);
}

#[test]
fn a_file_is_never_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("mine.yaml"), "mine").expect("a file");
    let output = svclab(folder.path(), &["new", "mine.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stderr), "mine.yaml exists\nhelp: Name a file that does not exist yet.\n");
    assert_eq!(fs::read_to_string(folder.path().join("mine.yaml")).expect("the file"), "mine");
    let output = svclab(folder.path(), &["new", "missing/first.yaml"]);
    assert!(text(&output.stderr).starts_with("missing/first.yaml: the scenario cannot be written: "));
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("pages")).expect("a folder");
    fs::write(folder.path().join("pages/other.1"), "").expect("a file");
    let output = svclab(folder.path(), &["man", "pages"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let count = fs::read_dir(folder.path().join("pages")).expect("a folder").count() - 1;
    assert_eq!(text(&output.stdout), format!("pages: {count} pages\n"));
    for name in ["svclab", "svclab-run", "svclab-dump-import", "svclab-graph"] {
        let page = fs::read_to_string(folder.path().join(format!("pages/{name}.1"))).expect("a page");
        assert!(page.contains(&format!(".TH {name} 1")) && page.contains(".SH NAME"), "{page}");
    }
    assert!(!folder.path().join("pages/svclab-worker.1").exists(), "it is no command of a user's");
    let main = fs::read_to_string(folder.path().join("pages/svclab.1")).expect("a page");
    assert_eq!(text(&svclab(folder.path(), &["man"]).stdout), main);
}

/// Requests completions for the last word, as the bash script does.
fn completed(shell: &str, folder: &Path, words: &[&str]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    command.args(["--", "svclab"]).args(words).current_dir(folder).env("_SVCLAB_COMPLETE", shell);
    command.env("_CLAP_COMPLETE_INDEX", words.len().to_string()).env("_CLAP_IFS", "\n");
    let output = command.env("_CLAP_COMPLETE_COMP_TYPE", "9").output();
    text(&output.expect("svclab starts").stdout).lines().map(str::to_owned).collect()
}

#[rstest]
#[case(&["ru"], &["run", "rules"])]
#[case(&["run", "a.yaml", "--filter", "a\\ "], &["a\\ pod\\ reaches\\ the\\ Service,\\ and\\ its\\ source\\ is\\ kept"])]
#[case(&["run", "--tag", ""], &[])]
#[case(&["run", "a.yaml", "--tag", ""], &["balance"])]
#[case(&["run", "a"], &["a.yaml"])]
#[case(
    &["explain", "a.yaml", "--from", ""],
    &["host/laptop", "localhost@worker", "localhost@worker2", "node/worker", "node/worker2", "pod/client", "pod/web-1", "pod/web-2"]
)]
#[case(
    &["graph", "a.yaml", "--to", ""],
    &["nodeport/web:80@worker", "nodeport/web:80@worker2", "service/web:80"]
)]
#[case(&["graph", "objects.yaml", "--to", ""], &["service/shop/web:80"])]
fn a_shell_completes_names(#[case] words: &[&str], #[case] expected: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    svclab(folder.path(), &["new", "a.yaml"]);
    fs::write(folder.path().join("ignored.txt"), "").expect("a file");
    let object = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {ports: [{port: 80}]}\n";
    fs::write(folder.path().join("objects.yaml"), object).expect("a file");
    fs::write(folder.path().join("broken.yaml"), "name: [").expect("a file");
    let mut found = completed("bash", folder.path(), words);
    found.sort();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

/// bash splits words at `:`, `@` and `=`, and replaces only what it calls the current word: its second argument.
#[rstest]
#[case::start("svclab ru", &["svclab", "ru"], "ru", &["run", "rules"])]
#[case::behind_a_colon(
    "svclab graph a.yaml --to service/web:",
    &["svclab", "graph", "a.yaml", "--to", "service/web", ":"],
    "",
    &["80"]
)]
#[case::in_a_port(
    "svclab graph a.yaml --to service/web:8",
    &["svclab", "graph", "a.yaml", "--to", "service/web", ":", "8"],
    "8",
    &["80"]
)]
#[case::behind_an_at(
    "svclab graph a.yaml --from localhost@worker2",
    &["svclab", "graph", "a.yaml", "--from", "localhost", "@", "worker2"],
    "@worker2",
    &["@worker2"]
)]
#[case::joined_by_equals(
    "svclab graph a.yaml --from=pod/c",
    &["svclab", "graph", "a.yaml", "--from", "=", "pod/c"],
    "pod/c",
    &["pod/client"]
)]
#[case::in_single_quotes(
    "svclab run a.yaml --filter 'a pod",
    &["svclab", "run", "a.yaml", "--filter", "'a pod"],
    "a pod",
    &["a pod reaches the Service, and its source is kept"]
)]
fn the_script_of_bash_completes_words_that_bash_splits(
    #[case] line: &str,
    #[case] words: &[&str],
    #[case] current: &str,
    #[case] expected: &[&str],
) {
    let folder = tempfile::tempdir().expect("a folder");
    svclab(folder.path(), &["new", "a.yaml"]);
    let script = r#"source <(svclab completions bash)
current=$1 COMP_LINE=$2 COMP_POINT=${#2} COMP_TYPE=9
shift 2
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_svclab svclab "$current"
printf '%s\n' "${COMPREPLY[@]}""#;
    let own = Path::new(env!("CARGO_BIN_EXE_svclab")).parent().expect("a folder").to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(own).chain(std::env::split_paths(&others))).expect("a path");
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script, "bash", current, line]).args(words).env("PATH", path);
    let output = bash.current_dir(folder.path()).output().expect("bash starts");
    let mut found: Vec<String> = text(&output.stdout).lines().map(|word| word.trim_end().to_owned()).collect();
    found.sort();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected, "{}", text(&output.stderr));
}

#[rstest]
fn a_script_asks_svclab(#[values("bash", "zsh", "fish", "elvish", "powershell")] shell: &str) {
    let output = svclab(Path::new("."), &["completions", shell]);
    let script = text(&output.stdout);
    assert!(output.status.success() && script.contains("_SVCLAB_COMPLETE"), "{script}");
}
