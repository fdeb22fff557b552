//! A test with its probes; for a failed probe also the path by hop and rule, and the three sources.

use std::collections::BTreeSet;

use super::super::model::{Case, Check, Difference, Flow, Rules, Sources};
use super::super::words::problem;
use super::chart;
use super::timeline;
use super::words::{class, lines, time, word};
use crate::report::Status;
use crate::text::markup;

/// A test; its details are open if it did not pass.
pub(super) fn render(case: &Case) -> String {
    let class = class(case.status, case.flaky);
    let is_bad = case.status != Status::Ok || case.flaky;
    let (open, name) = (if is_bad { " open" } else { "" }, markup(&case.name));
    let statuses = match (case.status, case.flaky) {
        (Status::Ok, true) => "ok flaky",
        (Status::Ok, false) => "ok",
        (Status::Failed | Status::Error, _) => "failed",
    };
    let tags: String = case.tags.iter().map(|tag| format!(" <span class=\"tag\">{}</span>", markup(tag))).collect();
    let place = case.at.as_ref().map(|at| format!(" <code class=\"soft\">line {}</code>", at.line)).unwrap_or_default();
    let attempts = match case.earlier.len() {
        0 => String::new(),
        earlier => format!(" <span class=\"flaky\">{} attempts</span>", earlier + 1),
    };
    let mut html = format!(
        "<details class=\"case\" data-status=\"{statuses}\"{open}><summary><span class=\"word {class}\">{}</span> {name}{tags}\
         {attempts}{place} <span class=\"soft\">{}</span></summary>\n<div>\n",
        word(case.status, case.flaky),
        time(case.seconds)
    );
    let attempts = case.earlier.len() + 1;
    for (number, earlier) in (1..).zip(&case.earlier) {
        html += &format!("<p class=\"flaky\">attempt {number} of {attempts} did not pass:</p>\n");
        html += &content(earlier);
    }
    if attempts > 1 {
        let (class, end) = if case.flaky { ("ok", "passed") } else { ("failed", "did not pass either") };
        html += &format!("<p class=\"{class}\">attempt {attempts} of {attempts} {end}:</p>\n");
    }
    html += &content(case);
    html + "</div></details>\n"
}

fn content(case: &Case) -> String {
    let mut html = String::new();
    if let Some(error) = &case.error {
        html += &format!("<pre tabindex=\"0\" class=\"error\">{}</pre>\n", lines(&problem(error)));
    }
    html.extend(case.checks.iter().map(check));
    if let Some(text) = &case.text {
        html += &format!("<details><summary>As printed</summary><pre tabindex=\"0\">{}</pre></details>\n", lines(text));
    }
    html
}

fn check(check: &Check) -> String {
    let is_bad = check.status != Status::Ok;
    let bad = if is_bad { " bad" } else { "" };
    let mut html = format!("<div class=\"check{bad}\"><h3><code>{}</code></h3>\n", markup(&check.title));
    html += &differences(&check.differences);
    if !check.observed.is_empty() && check.diagnosis.is_none() {
        html += &format!("<p>{}</p>\n", markup(&check.observed));
    }
    if is_bad {
        html += &held(check);
    }
    html += &check.diagnosis.as_ref().map(sources).unwrap_or_default();
    html += &check.balance.as_ref().map(chart::render).unwrap_or_default();
    html += &check.during.as_ref().map(timeline::render).unwrap_or_default();
    html.extend(check.measured.iter().map(|line| format!("<p class=\"soft\">{}</p>\n", markup(line))));
    if is_bad {
        html += &path(check.flow.as_ref(), &check.rules);
    }
    if let Some(command) = &check.explain_command {
        html += &format!("<h4>See also</h4>\n<pre tabindex=\"0\">{}</pre>\n", markup(command));
    }
    html + "</div>\n"
}

fn differences(all: &[Difference]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let row = |Difference { field, expected, observed, reason }: &Difference| {
        format!(
            "<dt>{}</dt><dd>expected {}<br>observed <b class=\"failed\">{}</b><br><span class=\"soft\">{}</span></dd>\n",
            markup(field),
            markup(expected),
            markup(observed),
            markup(reason)
        )
    };
    format!("<dl>{}</dl>\n", all.iter().map(row).collect::<String>())
}

/// The parts of the expectation that hold.
fn held(check: &Check) -> String {
    let differs: BTreeSet<&str> = check.differences.iter().map(|difference| difference.field.as_str()).collect();
    let held: Vec<String> = check
        .expected
        .iter()
        .filter(|(field, _)| !differs.contains(field.as_str()))
        .map(|(field, words)| format!("{}: {}", markup(field), markup(words)))
        .collect();
    if held.is_empty() { String::new() } else { format!("<p class=\"soft\">held: {}</p>\n", held.join("; ")) }
}

/// Promise, prediction and observation.
fn sources(sources: &Sources) -> String {
    let Sources { promise, prediction, unpredicted, observation, meaning, kernel } = sources;
    let none = || "nothing".to_owned();
    let predicted: Vec<String> = prediction.iter().map(|branch| markup(branch)).collect();
    let predicted = match unpredicted {
        Some(why) if predicted.is_empty() => format!("nothing: {}", markup(why)),
        _ => predicted.join("<br>"),
    };
    let mut html = format!(
        "<p class=\"meaning\">{}</p>\n<dl><dt>promised</dt><dd>{}</dd>\n<dt>predicted</dt><dd>{predicted}</dd>\n\
         <dt>observed</dt><dd>{}</dd></dl>\n",
        markup(meaning),
        promise.as_ref().map_or_else(none, |promise| markup(promise)),
        markup(observation)
    );
    if let Some(kernel) = kernel {
        html += &format!(
            "<p class=\"soft\">the kernel matched {} rules, {} as predicted</p>\n",
            kernel.matched, kernel.as_predicted
        );
        if let Some(difference) = &kernel.difference {
            html += &format!("<pre tabindex=\"0\">{}</pre>\n", lines(&difference.join("\n")));
        }
    }
    html
}

/// The captured packets by machine, each with the rules that decided there.
fn path(flow: Option<&Flow>, rules: &[Rules]) -> String {
    let sightings = flow.map(|flow| flow.path.as_slice()).unwrap_or_default();
    let mut left: Vec<&Rules> = rules.iter().filter(|rules| !rules.lines.is_empty()).collect();
    if sightings.is_empty() && left.is_empty() {
        return String::new();
    }
    let hops: Vec<_> = sightings.chunk_by(|one, next| one.place == next.place).collect();
    let mut html = String::from("<h4>Path and rules</h4>\n<ol class=\"path\">\n");
    let number = hops.len();
    for (position, hop) in (1..).zip(hops) {
        let place = &hop[0].place;
        let last = if position == number { " class=\"last\"" } else { "" };
        html += &format!("<li{last}><b>{}</b>\n", markup(place));
        for seen in hop {
            let (direction, interface, packet) =
                (markup(&seen.direction), markup(&seen.interface), markup(&seen.packet));
            html += &format!("<div class=\"packet\">{direction} {interface}: {packet}</div>\n");
        }
        if let Some(index) = left.iter().position(|rules| rules.place == *place) {
            html += &rule_lines(left.remove(index));
        }
        html += "</li>\n";
    }
    for rules in left {
        html += &format!("<li><b>{}</b>\n{}</li>\n", markup(&rules.place), rule_lines(rules));
    }
    html + "</ol>\n"
}

fn rule_lines(rules: &Rules) -> String {
    rules.lines.iter().map(|line| format!("<code class=\"rule\">{}</code>\n", markup(line))).collect()
}
