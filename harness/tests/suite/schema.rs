//! The JSON Schema of scenario files: up to date and correct.

use std::path::Path;
use std::process::Command;

use jsonschema::Validator;
use rstest::{fixture, rstest};
use serde_json::Value;
use svclab::scenario;

use crate::each_file::each_file;

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

#[test]
fn the_reference_in_the_book_is_made_of_it() {
    let file = std::fs::read_to_string("docs/src/reference.md").expect("the file");
    let printed = Command::new(env!("CARGO_BIN_EXE_svclab")).args(["schema", "--format", "markdown"]).output();
    assert!(
        file.as_bytes() == printed.expect("svclab starts").stdout,
        "the fields of scenarios have changed; write the reference again with \
         `cargo run -p svclab -- schema --format markdown > harness/docs/src/reference.md`"
    );
}

/// The schema of a command's output. Its file is up to date.
fn validator(of: &str) -> Validator {
    let file = std::fs::read_to_string(format!("schemas/{of}.schema.json")).expect("the file");
    let printed =
        Command::new(env!("CARGO_BIN_EXE_svclab")).args(["schema", of]).output().expect("svclab starts").stdout;
    assert!(
        file.as_bytes() == printed,
        "what {of} writes has changed; write its schema again with \
         `cargo run -p svclab -- schema {of} > harness/schemas/{of}.schema.json`"
    );
    jsonschema::draft202012::new(&serde_json::from_str(&file).expect("JSON")).expect("a sound schema")
}

/// The properties of a schema without a description. The tag of a variant is described with the variant.
fn undescribed(schema: &Value, place: &str, found: &mut Vec<String>) {
    let properties = schema["properties"].as_object().into_iter().flatten();
    for (name, property) in properties {
        let is_tag = property.get("const").is_some() && schema.get("description").is_some();
        if property.get("description").is_none() && !is_tag {
            found.push(format!("{place}/{name}"));
        }
    }
    match schema {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| undescribed(field, &format!("{place}/{name}"), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| undescribed(item, &format!("{place}/{index}"), found));
        }
        _ => {}
    }
}

#[rstest]
fn every_property_has_a_description_and_a_camel_case_name(
    #[values(
        "scenario",
        "run",
        "verify",
        "mutate",
        "explain",
        "cascade",
        "diff",
        "diff-releases",
        "dump-show",
        "dump-lint"
    )]
    of: &str,
) {
    let printed = Command::new(env!("CARGO_BIN_EXE_svclab")).args(["schema", of]).output().expect("svclab starts");
    let schema: Value = serde_json::from_slice(&printed.stdout).expect("JSON");
    let mut found = Vec::new();
    undescribed(&schema, "", &mut found);
    assert_eq!(found, [""; 0]);
    let text = String::from_utf8(printed.stdout).expect("text");
    let names = text.lines().filter_map(|line| line.trim().strip_prefix('"')?.split_once("\": {"));
    let odd: Vec<&str> = names.map(|(name, _)| name).filter(|name| name.contains('_')).collect();
    assert_eq!(odd, [""; 0]);
}

const FOO: &str = "../scenarios/seeds/000-foo-three-replicas.yaml";
const PART: &str = "tests/texts/part.txt";
const STALE: &str = "../scenarios/distribution/equal-probabilities.yaml";

#[rstest]
#[case::cascade("cascade", &["cascade", STALE, "--node", "worker", "--format", "json"])]
#[case::sampled("cascade", &["cascade", FOO, "--node", "worker1", "--sample", "1000", "--format", "json"])]
#[case::shown("dump-show", &["dump", "show", PART, "--format", "json"])]
#[case::linted("dump-lint", &["dump", "lint", PART, "--format", "json"])]
#[case::numgen("cascade", &["cascade", "../scenarios/nftables/balance.yaml", "--format", "json"])]
#[case::explain("explain", &["explain", FOO, "--from", "pod/client", "--to", "service/kube-system/coredns:9153", "--format", "json"])]
#[case::verify("verify", &["verify", FOO, "--format", "json"])]
#[case::mutate("mutate", &["mutate", FOO, "--sample", "6", "--format", "json"])]
#[case::run("run", &["run", FOO, STALE, "--quiet", "--report", concat!("json=", env!("CARGO_TARGET_TMPDIR"), "/schema.json")])]
fn what_is_written_is_as_its_schema_says(#[case] of: &str, #[case] arguments: &[&str]) {
    let schema = validator(of);
    let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments).output().expect("svclab starts");
    let text = match of {
        "run" => std::fs::read_to_string(concat!(env!("CARGO_TARGET_TMPDIR"), "/schema.json")).expect("a report"),
        _ => String::from_utf8(output.stdout).expect("text"),
    };
    let written: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let errors: Vec<String> =
        schema.iter_errors(&written).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert_eq!(errors, [""; 0]);
    // A schema that accepts everything would be useless.
    let mut other = written.as_object().expect("an object").clone();
    other.insert("schemaVersion".to_owned(), Value::from("1"));
    assert!(!schema.is_valid(&Value::from(other)), "its version is a number");
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
fn a_sound_scenario_is_accepted(schema: Validator) {
    each_file(&["../scenarios/**/*.yaml"], |file| {
        if file.iter().any(|folder| folder == "invalid" || folder == "manifests") {
            return;
        }
        let errors = document(file);
        let errors = schema.iter_errors(&errors).map(|error| format!("{}: {error}", error.instance_path()));
        assert_eq!(errors.collect::<Vec<String>>(), [""; 0]);
    });
}

/// Syntactic errors are also shown by an editor; semantic ones need `svclab check`.
#[rstest]
#[case::unknown_field("unknown-field", "/services/0")]
#[case::missing_field("missing-field", "/pods/0")]
#[case::wrong_type("wrong-type", "/nodes/1")]
#[case::unknown_value("unknown-value", "/cluster/cni")]
#[case::unquoted_version("unquoted-version", "/cluster/proxy/version")]
fn an_error_of_form_is_rejected(schema: Validator, #[case] name: &str, #[case] place: &str) {
    let file = document(&Path::new("../scenarios/invalid").join(name).with_extension("yaml"));
    let places: Vec<String> = schema.iter_errors(&file).map(|error| error.instance_path().to_string()).collect();
    assert!(places.iter().any(|found| found == place), "{places:?}");
}

#[rstest]
#[case::diff("diff", &[])]
#[case::releases("diff-releases", &["--each-release"])]
fn the_result_of_diff_is_as_its_schema_says(#[case] of: &str, #[case] more: &[&str]) {
    let validator = validator(of);
    let arguments = [
        "diff",
        "--format",
        "json",
        "../scenarios/affinity/node-port.yaml",
        "--before",
        "1.27:iptables",
        "--after",
        "1.33:nftables",
    ];
    let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments).args(more).output().expect("svclab starts");
    let written: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let errors: Vec<String> = validator.iter_errors(&written).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
    let result = &written["result"];
    let found = result["changes"].as_array().or(result["steps"].as_array());
    assert!(found.is_some_and(|found| !found.is_empty()));
}
