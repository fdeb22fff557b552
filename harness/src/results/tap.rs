//! The Test Anything Protocol, version 14.

use super::model::{Case, Results, Suite};
use super::words::{all_counts, attempts, environment, headline};
use crate::report::Status;
use crate::text::{harmless, one_line};

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
            let values = [("message", message.to_owned()), ("at", suite.file.clone())];
            lines.push(format!("not ok {number} - {}: the lab\n{}", description(&suite.name), block(&values)));
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
    let attempts = attempts(case).map(|words| ("attempts", words));
    match (case.status, attempts) {
        (Status::Ok, None) => line,
        (Status::Ok, attempts) => line + &block(&attempts.into_iter().chain([("at", place)]).collect::<Vec<_>>()),
        (status, attempts) => {
            let mut values = vec![("severity", status.as_str().to_owned()), ("message", headline(case)), ("at", place)];
            values.extend(attempts);
            values.extend(case.text.clone().map(|text| ("diagnosis", text)));
            line + &block(&values)
        }
    }
}

/// A description: `#` would start a directive.
fn description(text: &str) -> String {
    one_line(text).replace('\\', "\\\\").replace('#', "\\#")
}

/// A YAML block.
fn block(values: &[(&str, String)]) -> String {
    let lines: String = values.iter().map(|(key, text)| format!("  {key}: {}\n", scalar(text))).collect();
    format!("  ---\n{lines}  ...\n")
}

/// Characters that some YAML parsers treat as line ends, or drop.
const ENDS: [char; 4] = ['\u{85}', '\u{2028}', '\u{2029}', '\u{feff}'];

/// A literal block for text of several lines; other text, and text with such characters, is quoted like JSON in one line.
fn scalar(text: &str) -> String {
    let lines = text.trim_matches('\n');
    if lines.contains('\n') && !lines.contains(ENDS) && harmless(lines, false) == lines {
        // The first line may be indented, so the block's indentation is given explicitly. For some TAP parsers (tap.py 3.2) an empty line
        // ends the block, so empty lines are indented too.
        let indented: Vec<String> = lines.split('\n').map(|line| format!("    {line}")).collect();
        return format!("|2-\n{}", indented.join("\n"));
    }
    crate::text::json_escaped(serde_json::Value::from(text).to_string())
}
