//! The help of every command, as displayed.

use std::process::Command;

use rstest::rstest;

#[rstest]
fn help_of_a_command(
    #[values(
        "",
        "run",
        "shell",
        "attach",
        "exec",
        "verify",
        "mutate",
        "new",
        "check",
        "explain",
        "graph",
        "diff",
        "rules",
        "cascade",
        "dump",
        "dump show",
        "dump import",
        "dump lint",
        "dump minimize",
        "dump anonymize",
        "dump collect",
        "report",
        "report merge",
        "report show",
        "doctor",
        "schema",
        "completions",
        "man"
    )]
    command: &str,
) {
    let arguments = command.split(' ').chain(["--help"]).filter(|argument| !argument.is_empty());
    let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments).output().expect("svclab starts");
    let help = String::from_utf8(output.stdout).expect("text");
    let name = if command.is_empty() { "svclab".to_owned() } else { command.replace(' ', "_") };
    insta::with_settings!({ omit_expression => true }, {
        insta::assert_snapshot!(format!("help_{name}"), help);
    });
}
