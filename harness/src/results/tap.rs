//! The Test Anything Protocol, version 14.

use super::model::{Case, Results, Suite};
use super::words::{all_counts, environment, headline};
use crate::report::Status;
use crate::text::one_line;

/// The report: a line for each test, with a YAML block for each that did not pass.
pub fn render(results: &Results) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut number = 0;
    for suite in &results.suites {
        for case in &suite.cases {
            number += 1;
            lines.push(test(suite, case, number));
        }
        if suite.is_wrong_by_itself() {
            number += 1;
            let message = suite.error.as_ref().map_or("no tests", |error| error.message.as_str());
            lines.push(format!(
                "not ok {number} - {}: the lab\n{}",
                description(&suite.name),
                block(&[("message", message)])
            ));
        }
    }
    let head: Vec<String> =
        environment(&results.environment).iter().map(|(name, value)| format!("{name} {}", one_line(value))).collect();
    let (head, counts) = (head.join(", "), all_counts(results));
    format!("TAP version 14\n1..{number}\n# {head}\n{}# {counts}\n", lines.concat())
}

fn test(suite: &Suite, case: &Case, number: usize) -> String {
    let result = if case.status == Status::Ok { "ok" } else { "not ok" };
    let repetition = suite.repetition.map(|number| format!(" (repetition {number})")).unwrap_or_default();
    let (name, test) = (description(&suite.name), description(&case.name));
    let flaky = if case.flaky { " (flaky)" } else { "" };
    let line = format!("{result} {number} - {name}{repetition}: {test}{flaky}\n");
    let place = case.at.as_ref().map_or_else(|| suite.file.clone(), |at| format!("{}:{}", at.file, at.line));
    match case.status {
        Status::Ok => line,
        status => {
            let message = headline(case);
            let text = case.text.clone().unwrap_or_default();
            line + &block(&[("severity", status.as_str()), ("message", &message), ("at", &place), ("diagnosis", &text)])
        }
    }
}

/// A description: `#` would start a directive.
fn description(text: &str) -> String {
    one_line(text).replace('\\', "\\\\").replace('#', "\\#")
}

/// A YAML block. Quoted like JSON, every text is one line of YAML.
fn block(values: &[(&str, &str)]) -> String {
    let quoted = |text: &str| crate::text::json_escaped(serde_json::Value::from(text).to_string());
    let lines: String = values.iter().map(|(key, text)| format!("  {key}: {}\n", quoted(text))).collect();
    format!("  ---\n{lines}  ...\n")
}
