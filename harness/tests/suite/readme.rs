//! The examples of README print what README shows.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use regex::Regex;
use rstest::rstest;

const README: &str = include_str!("../../../README.md");
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// What each run has of its own: times, and ports that the kernel chooses.
static VOLATILE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:< )?\b[0-9.]+ m?s\b|:[0-9]{4,5}\b").expect("valid"));

#[rstest]
#[case("run first.yaml")]
#[case("check scenarios/invalid/several-errors.yaml")]
#[case("verify scenarios/bugs/113659-mark-bits.yaml")]
#[case("explain first.yaml --from host/laptop --to nodeport/nginx:80@worker --live")]
#[case("diff scenarios/manifests/showcase.yaml --before 1.27:iptables --after 1.33:nftables")]
#[case("cascade scenarios/seeds/000-foo-three-replicas.yaml --node worker1")]
#[case("mutate first.yaml")]
fn an_example_prints_what_is_shown(#[case] arguments: &str) {
    let shown = after(&format!("$ svclab {arguments}\n"));
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("first.yaml"), after("$ cat first.yaml\n")).expect("the first scenario");
    let place = if arguments.contains("first.yaml") { folder.path() } else { Path::new(REPOSITORY) };
    let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments.split(' ')).current_dir(place).output();
    let output = output.expect("svclab starts");
    let printed = [output.stdout, output.stderr].concat();
    let printed = comparable(&String::from_utf8_lossy(&printed));
    let mut rest = printed.as_str();
    for stretch in stretches(shown) {
        let found = rest.split_once(&stretch);
        let (_, behind) = found.unwrap_or_else(|| panic!("README shows\n{stretch}\nbut this is printed:\n{printed}"));
        rest = behind;
    }
}

/// What follows a command of README, up to the next one or the end of the block.
fn after(command: &str) -> &'static str {
    let (_, block) = README.split_once(command).expect("an example of README");
    let (block, _) = block.split_once("```").expect("the end of a block");
    block.split_once("\n$ ").map_or(block, |(own, _)| own)
}

/// What is shown between lines of dots, which stand for lines that are left out.
fn stretches(shown: &str) -> Vec<String> {
    let is_left_out = |line: &&str| line.trim() == "...";
    let lines: Vec<&str> = shown.lines().collect();
    lines
        .split(|line| is_left_out(line))
        .map(|lines| comparable(&lines.join("\n")))
        .filter(|text| !text.is_empty())
        .collect()
}

/// A text without what each run has of its own, and without the widths of columns and lines that depend on that.
fn comparable(text: &str) -> String {
    crate::unwrapped(&VOLATILE.replace_all(text, "*"))
}
