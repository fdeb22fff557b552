//! Tests every renderer with a run that passes and a run that does not.

use insta::assert_snapshot;
use rstest::rstest;
use svclab_rules::cluster::ObjectName;

use super::samples::*;
use super::words::duration;
use super::*;
use crate::page::{Detail, Settings};
use crate::scenario::{Destination, Probe, Vantage};

fn plain(detail: Detail) -> Settings {
    Settings { detail, ..Settings::default() }
}

#[test]
fn console_passing() {
    assert_snapshot!(console::render(&passing(), plain(Detail::Normal)));
}

#[test]
fn console_failing() {
    assert_snapshot!(console::render(&failing(), plain(Detail::Normal)));
}

#[test]
fn console_verbose() {
    assert_snapshot!(console::render(&passing(), plain(Detail::Verbose)));
}

#[test]
fn console_quiet() {
    assert_eq!(console::render(&passing(), plain(Detail::Quiet)), "");
    let quiet = console::render(&failing(), plain(Detail::Quiet));
    assert!(!quiet.contains("a test that holds"), "{quiet}");
    assert!(quiet.contains("FAIL  each replica gets its share"), "{quiet}");
}

#[test]
fn colours_add_nothing_but_colours() {
    for detail in [Detail::Quiet, Detail::Normal, Detail::Verbose] {
        for run in [passing(), failing()] {
            let coloured = console::render(&run, Settings { colours: true, ..plain(detail) });
            let lines = coloured.lines().map(|line| strip_colours(line).trim_end().to_owned() + "\n");
            assert_eq!(lines.collect::<String>(), console::render(&run, plain(detail)));
        }
    }
    assert!(
        console::render(&passing(), Settings { colours: true, ..Settings::default() }).contains("\x1b[32mok   \x1b[0m")
    );
}

/// Removes escape sequences of the form ESC [ ... m.
fn strip_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    first + &parts.map(|part| part.split_once('m').map_or("", |(_, rest)| rest)).collect::<String>()
}

#[test]
fn json_passing() {
    assert_snapshot!(crate::text::json(&json::document(&passing())).unwrap());
}

#[test]
fn json_failing() {
    assert_snapshot!(crate::text::json(&json::document(&failing())).unwrap());
}

#[test]
fn what_showed_nothing_is_an_error() {
    let nothing = test("nothing", 1, 0, Vec::new());
    assert_eq!(nothing.status(), Status::Error);
    assert_eq!(scenario(Vec::new()).status(), Status::Error);
    let run = RunReport { scenarios: vec![scenario(Vec::new()), scenario(vec![nothing])], ..RunReport::default() };
    assert_eq!(run.counts(), Counts { scenarios: 2, errors: 1, scenario_errors: 1, ..Counts::default() });
    assert_eq!(RunReport::default().status(), Status::Ok);
}

#[rstest]
#[case(0, "< 1 ms")]
#[case(84, "84 ms")]
#[case(1_310, "1.31 s")]
#[case(59_994, "59.99 s")]
#[case(59_999, "1 min 00 s")]
#[case(123_400, "2 min 03 s")]
fn durations(#[case] millis: u64, #[case] words: &str) {
    assert_eq!(duration(ms(millis)), words);
}

#[rstest]
#[case(probe(1), "pod/client > service/nginx:80 tcp")]
#[case(
    Probe { from: Vantage::Pod(ObjectName::new("kube-system", "dns")), source_port: Some(40_000), ..probe(1) },
    "pod/kube-system/dns > service/nginx:80 tcp from port 40000"
)]
#[case(
    Probe {
        from: Vantage::Localhost("worker".to_owned()),
        to: Destination { label: "loadbalancer/web:80".to_owned(), via: Some("worker2".to_owned()), ..probe(1).to },
        ..probe(1)
    },
    "localhost@worker > loadbalancer/web:80 tcp via node/worker2"
)]
#[case(
    Probe {
        from: Vantage::Host("outside".to_owned()),
        to: Destination { label: "nodeport/web:80@worker".to_owned(), via: Some("worker".to_owned()), ..probe(1).to },
        ..probe(1)
    },
    "host/outside > nodeport/web:80@worker tcp"
)]
fn probes_in_words(#[case] probe: Probe, #[case] words: &str) {
    assert_eq!(probe_words(&probe), words);
}

/// A capture that cannot be written is an error outside of the tests.
#[test]
fn an_error_beside_the_tests_is_no_test() {
    let held = test("one", 5, 84, vec![delivered()]);
    let report = ScenarioReport {
        error: Some(trouble("writing a.pcapng: no space", "Free some.", None)),
        ..scenario(vec![held])
    };
    let run = RunReport { scenarios: vec![report], duration: ms(9), ..RunReport::default() };
    assert_eq!(run.counts(), Counts { scenarios: 1, ok: 1, scenario_errors: 1, ..Counts::default() });
    assert_eq!(run.status(), Status::Error);
    let page = console::render(&run, plain(Detail::Normal));
    assert!(page.ends_with("1 scenario, 1 test: 1 ok; 1 scenario error, in 9 ms\n"), "{page}");
}

/// A lab that fails is reported once, and each of its tests counts.
#[test]
fn tests_of_a_lab_that_fails() {
    let run = without_a_lab();
    assert_eq!(run.counts(), Counts { scenarios: 1, errors: 2, ..Counts::default() });
    let page = "a ClusterIP reaches a pod on another node  scenarios/clusterip/other-node.yaml\n  \
        ERROR one     < 1 ms\n  \
        ERROR two     < 1 ms\n  \
        ERROR the lab\n\n        \
        iptables-restore is not installed\n        \
        Install it.\n\n";
    assert!(
        console::render(&run, plain(Detail::Normal)).starts_with(page),
        "{}",
        console::render(&run, plain(Detail::Normal))
    );
}

#[test]
fn a_flaky_test_is_never_hidden() {
    let run = flaky();
    assert_eq!((run.status(), run.counts().flaky), (Status::Ok, 1));
    for detail in [Detail::Quiet, Detail::Normal] {
        let page = console::render(&run, plain(detail));
        assert!(page.contains("FLAKY the source is kept") && page.contains("attempt 1 of 2: source: "), "{page}");
    }
    assert!(console::render(&run, plain(Detail::Normal)).contains("1 ok (1 flaky)"));
}
