//! The JSON Schema of scenario files: up to date, and true.
#![allow(clippy::expect_used, reason = "a test fails where something is missing")]

use std::path::{Path, PathBuf};
use std::process::Command;

use jsonschema::Validator;
use rstest::{fixture, rstest};
use serde_json::Value;
use svclab::scenario;

#[test]
fn the_file_is_what_the_command_prints() {
    let file = std::fs::read_to_string("../scenarios/scenario.schema.json").expect("the file");
    let printed = Command::new(env!("CARGO_BIN_EXE_svclab")).arg("schema").output().expect("svclab starts").stdout;
    assert!(
        file.as_bytes() == printed,
        "the fields of scenarios have changed; write the schema again with \
         `cargo run -p svclab -- schema > scenarios/scenario.schema.json`"
    );
}

#[fixture]
fn schema() -> Validator {
    jsonschema::draft202012::new(&scenario::schema()).expect("a sound schema")
}

/// A scenario as an editor sees it.
fn document(file: &Path) -> Value {
    serde_yaml::from_str(&std::fs::read_to_string(file).expect("a file")).expect("YAML")
}

#[rstest]
fn a_sound_scenario_is_accepted(
    schema: Validator,
    #[files("../scenarios/**/*.yaml")]
    #[exclude("/(invalid|manifests)/")]
    file: PathBuf,
) {
    let mistakes: Vec<String> =
        schema.iter_errors(&document(&file)).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert_eq!(mistakes, [""; 0]);
}

/// Mistakes of form show in an editor as well; those of meaning need `svclab check`.
#[rstest]
#[case::unknown_field("unknown-field", "/services/0")]
#[case::missing_field("missing-field", "/pods/0")]
#[case::wrong_type("wrong-type", "/nodes/1")]
#[case::wrong_word("wrong-word", "/cluster/cni")]
#[case::version_without_quotes("version-without-quotes", "/cluster/proxy/version")]
fn a_mistake_of_form_is_refused(schema: Validator, #[case] name: &str, #[case] place: &str) {
    let file = document(&Path::new("../scenarios/invalid").join(name).with_extension("yaml"));
    let places: Vec<String> = schema.iter_errors(&file).map(|error| error.instance_path().to_string()).collect();
    assert!(places.iter().any(|found| found == place), "{places:?}");
}
