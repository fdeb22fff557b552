//! Options that choose tests.

use std::path::PathBuf;

use svclab::run::{Options, Selection, TagCondition};
use svclab::scenario::Scenario;
use svclab::text::{counted, one_line, printable};

use super::Exit;
use super::complete;
use super::console::Console;
use super::shard::Shard;

/// Options that choose tests.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ChoiceArgs {
    /// Run only tests whose name contains this text.
    #[arg(long, value_name = "TEXT", add = complete::tests())]
    filter: Option<String>,
    /// Run only tests with this tag, or, as `!TAG`, only tests without it. With several tags, a test needs only one of them.
    #[arg(long, value_name = "TAG", value_delimiter = ',', allow_hyphen_values = true, add = complete::tags())]
    tag: Vec<TagCondition>,
    /// Run only a shard of the scenarios that have a selected test: 1/4 is the first of four.
    #[arg(long, value_name = "K/N")]
    pub(super) shard: Option<Shard>,
    /// Balance shards by the durations in an earlier report (`--report json=FILE`). Every shard needs the same file.
    #[arg(long, value_name = "FILE", requires = "shard")]
    pub(super) durations: Option<PathBuf>,
    /// List the selected tests without running them.
    #[arg(long)]
    pub(super) list: bool,
}

impl ChoiceArgs {
    /// Returns the selection of tests.
    pub(super) fn selection(&self) -> Selection {
        Selection { filter: self.filter.clone(), tags: self.tag.clone(), only: None }
    }

    /// Reports a selection without any test.
    pub(super) fn nothing_chosen(&self, scenarios: &[Scenario], console: &Console) -> Exit {
        let tests: usize = scenarios.iter().map(|scenario| scenario.tests.len()).sum();
        let by_name = self.filter.as_ref().map(|text| format!("has a name that contains `{}`", one_line(text)));
        let (unwanted, wanted): (Vec<_>, Vec<_>) = self.tag.iter().partition(|condition| condition.is_negated);
        let tags = |conditions: &[&TagCondition]| {
            let tags: Vec<String> = conditions.iter().map(|condition| format!("`{}`", condition.tag)).collect();
            format!("the tag {}", tags.join(" or "))
        };
        let with = Some(format!("has {}", tags(&wanted))).filter(|_| !wanted.is_empty());
        let without = Some(format!("lacks {}", tags(&unwanted))).filter(|_| !unwanted.is_empty());
        let conditions: Vec<String> = by_name.into_iter().chain(with).chain(without).collect();
        console.complain(format!(
            "no test is selected: none of {} {}\nhelp: `svclab run --list` prints the tests with their tags.",
            counted(tests, "test"),
            conditions.join(" and ")
        ));
        Exit::Input
    }
}

/// Prints the selected tests, one per line: place, scenario, test, tags.
pub(super) fn list(scenarios: &[Scenario], options: &Options, console: &Console) {
    let mut number = 0_usize;
    for scenario in scenarios {
        for test in options.selection.of(scenario) {
            number += 1;
            let tags: Vec<&str> = test.tags.iter().map(svclab::scenario::Tag::as_str).collect();
            let tags = if tags.is_empty() { String::new() } else { format!("  [{}]", tags.join(", ")) };
            let place = format!("{}:{}", printable(&scenario.file), test.span.line);
            console.text(format_args!("{place}: {}: {}{tags}\n", scenario.name, test.name));
        }
    }
    console.inform(counted(number, "test"));
}
