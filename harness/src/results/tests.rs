//! Tests every renderer with a run that passes and a run that does not, and merging.

use insta::assert_snapshot;
use rstest::rstest;

use super::github::Folders;
use super::*;
use crate::environment::{Environment, Implementation, Iptables, Machine};
use crate::report::samples::{failing, flaky, passing, without_a_lab};
use crate::report::{RunReport, ShardOf, Status, json};

fn environment(kernel: &str) -> Environment {
    Environment {
        svclab_version: "0.1.0".to_owned(),
        kernel: kernel.to_owned(),
        iptables: Some(Iptables { version: "1.8.9".to_owned(), backend: Implementation::Nft }),
        nft: Some("1.0.6".to_owned()),
        machine: Machine { architecture: "x86_64".to_owned(), cpus: 2 },
    }
}

fn text(run: &RunReport) -> String {
    environment("6.18.0").envelop("run", json::document(run)).unwrap()
}

fn results(run: &RunReport) -> Results {
    Results::read(&text(run)).unwrap()
}

fn annotations(run: &RunReport) -> String {
    github::annotations(&results(run), &Folders::default())
}

#[test]
fn what_is_read_is_what_was_reported() {
    for run in [passing(), failing(), flaky(), without_a_lab()] {
        let (read, counts) = (results(&run), run.counts());
        assert_eq!(read.status(), run.status());
        assert_eq!(read.counts(), counts);
    }
}

#[test]
fn junit_passing() {
    assert_snapshot!(junit::render(&results(&passing())).unwrap());
}

#[test]
fn junit_failing() {
    assert_snapshot!(junit::render(&results(&failing())).unwrap());
}

#[test]
fn github_passing() {
    assert_snapshot!(annotations(&passing()));
}

#[test]
fn github_failing() {
    assert_snapshot!(annotations(&failing()));
}

#[test]
fn tap_failing() {
    assert_snapshot!(tap::render(&results(&failing())));
}

#[test]
fn summary_failing() {
    assert_snapshot!(summary::render(&results(&failing())));
}

#[test]
fn a_flaky_test_is_in_every_report() {
    let flaky = results(&flaky());
    let junit = junit::render(&flaky).unwrap();
    assert!(junit.contains("<flakyFailure"), "{junit}");
    assert!(github::annotations(&flaky, &Folders::default()).contains("::warning file=scenarios/clusterip"));
    assert!(
        tap::render(&flaky).contains(
            "ok 1 - a ClusterIP reaches a pod on another node: the source is kept (flaky)\n  ---\n  attempts: \"2, the last of which \
             passed; before: "
        )
    );
    assert!(summary::render(&flaky).contains("passed at attempt 2; before: "));
    assert!(html::render(&flaky).contains("attempt 2 of 2 passed"));
}

/// A failed lab is annotated once, and its reason is given for every test that was not run because of it.
#[test]
fn tests_of_a_lab_that_fails() {
    let run = without_a_lab();
    assert_eq!(annotations(&run).matches("::error").count(), 1, "{}", annotations(&run));
    let junit = junit::render(&results(&run)).unwrap();
    assert_eq!(junit.matches("<testcase ").count(), 2, "{junit}");
    assert_eq!(junit.matches("is not installed").count(), 2, "{junit}");
}

fn shard(number: usize, total: usize, scenarios: usize) -> RunReport {
    let mut run = if number == 1 { failing() } else { passing() };
    run.scenarios.truncate(1);
    run.scenarios[0].file = format!("{number}.yaml").into();
    RunReport { shard: Some(ShardOf { number, total, scenarios }), ..run }
}

fn merged(texts: &[String], mixed: bool) -> Result<Merged, MergeError> {
    let named: Vec<(String, String)> =
        (1..).zip(texts).map(|(number, text)| (format!("{number}.json"), text.clone())).collect();
    merge(&named, mixed)
}

#[test]
fn shards_become_one_run() {
    let all = [shard(2, 2, 2), shard(1, 2, 2)].map(|run| text(&run));
    let Merged { json, results } = merged(&all, false).unwrap();
    assert_eq!(results.status(), Status::Error);
    assert_eq!(results.suites.iter().map(|suite| suite.file.as_str()).collect::<Vec<_>>(), ["1.yaml", "2.yaml"]);
    assert_eq!(json["result"]["counts"]["ok"], 3);
    assert_eq!(json["result"]["shard"], serde_json::Value::Null);
    assert_eq!(Results::read(&json.to_string()).unwrap(), results);
}

#[rstest]
#[case::missing(vec![shard(1, 3, 3), shard(3, 3, 3)], "1 shard of 3 is missing: 2")]
#[case::twice(vec![shard(1, 2, 2), shard(1, 2, 2)], "1.json and 2.json are both the report of shard 1")]
#[case::none(vec![shard(1, 2, 2), passing()], "2.json is the report of a whole run, not of a shard")]
#[case::whole(vec![passing(), passing()], "1.json is the report of a whole run")]
#[case::other_inputs(vec![shard(1, 2, 3), shard(2, 2, 3)], "together they ran 2 files, but the run had 3 scenarios")]
fn incomplete_runs_are_not_merged(#[case] runs: Vec<RunReport>, #[case] expected: &str) {
    let texts: Vec<String> = runs.iter().map(text).collect();
    let error = merged(&texts, false).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn versions_must_be_equal() {
    let document = |run: &RunReport, kernel: &str| environment(kernel).envelop("run", json::document(run)).unwrap();
    let texts = [document(&shard(1, 2, 2), "6.18.0"), document(&shard(2, 2, 2), "6.19.0")];
    let error = merged(&texts, false).unwrap_err().to_string();
    assert_eq!(error, "1.json and 2.json differ: kernel is 6.18.0 in 1.json and 6.19.0 in 2.json");
    assert!(merged(&texts, true).is_ok());
    let newer = texts.map(|text| text.replace("\"schemaVersion\": 1", "\"schemaVersion\": 2"));
    let error = merged(&newer, true).unwrap_err().to_string();
    assert!(error.contains("schemaVersion 2, while this one reads 1"), "{error}");
    let old = [text(&shard(1, 2, 2)), text(&shard(2, 2, 2)).replace("\"0.1.0\"", "\"0.0.9\"")];
    assert!(merged(&old, true).unwrap_err().to_string().contains("svclab is 0.1.0 in "));
}
