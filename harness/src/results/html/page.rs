//! The page: the environment, the failures, then everything else.

use super::super::model::{Case, Results, Suite};
use super::super::words::{all_counts, environment, problem};
use super::case;
use super::picture;
use super::words::{class, lines, time, word};
use crate::report::{Counts, Status, program_lines};
use crate::text::markup;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The content security policy: the page may load nothing.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The report as an HTML document.
pub fn render(results: &Results) -> String {
    let mut suites: Vec<&Suite> = results.suites.iter().collect();
    suites.sort_by_key(|suite| (std::cmp::Reverse(suite.status()), !suite.cases.iter().any(|case| case.flaky)));
    let body: String = suites.iter().map(|one| suite(one)).collect();
    let (status, counts) = (results.status(), markup(&all_counts(results)));
    let command = markup(&results.command);
    let class = class(status, false);
    let time = time(results.seconds);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>svclab {command}: {counts}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n\
         <h1>svclab {command}: <span class=\"{class}\">{}</span></h1>\n<p>{counts}, in {time}</p>\n{}{}</header>\n\
         {FORM}<main>\n{body}</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        word(status, false),
        share(&results.counts()),
        machine(results),
    )
}

const FORM: &str = "<form role=\"search\" aria-label=\"Tests\">\n\
<label>Search <input type=\"search\" id=\"search\" autocomplete=\"off\"></label>\n\
<fieldset><legend>Show</legend>\n\
<label><input type=\"radio\" name=\"status\" value=\"all\" checked> all</label>\n\
<label><input type=\"radio\" name=\"status\" value=\"failed\"> failed</label>\n\
<label><input type=\"radio\" name=\"status\" value=\"flaky\"> flaky</label>\n\
<label><input type=\"radio\" name=\"status\" value=\"ok\"> passed</label>\n\
</fieldset>\n<span id=\"shown\" role=\"status\" class=\"soft\"></span>\n</form>\n";

/// A bar of the tests by result.
fn share(counts: &Counts) -> String {
    let parts = [
        ("ok", counts.ok - counts.flaky),
        ("flaky", counts.flaky),
        ("failed", counts.failed + counts.errors + counts.scenario_errors),
    ];
    let part = |(class, number): (&str, usize)| format!("<i class=\"{class}\" style=\"flex:{number}\"></i>");
    let parts: String = parts.into_iter().filter(|(_, number)| *number > 0).map(part).collect();
    format!("<div class=\"share\" aria-hidden=\"true\">{parts}</div>\n")
}

fn machine(results: &Results) -> String {
    let pairs = environment(&results.environment);
    let pair = |(name, value): &(&str, String)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", markup(value));
    format!("<dl class=\"environment\">{}</dl>\n", pairs.iter().map(pair).collect::<String>())
}

fn suite(suite: &Suite) -> String {
    let status = suite.status();
    let (name, file) = (markup(&suite.name), markup(&suite.file));
    let repetition = suite.repetition.map(|number| format!(" <span class=\"soft\">(repetition {number})</span>"));
    let mut html = format!(
        "<section class=\"suite\" data-status=\"{}\" data-head=\"{name} {file}\">\n\
         <div><h2>{name}{}</h2><p class=\"soft\"><code>{file}</code> {}</p></div>\n",
        status.as_str(),
        repetition.unwrap_or_default(),
        time(suite.seconds)
    );
    if let Some(error) = &suite.error {
        html += &format!(
            "<p class=\"error\"><b>ERROR the lab</b></p>\n<pre tabindex=\"0\">{}</pre>\n",
            lines(&problem(error))
        );
    } else if suite.cases.is_empty() {
        html += "<p class=\"error\"><b>ERROR no tests</b></p>\n";
    }
    let programs = program_lines(&suite.programs);
    html.extend(programs.iter().map(|line| format!("<p class=\"soft\">{}</p>\n", markup(line))));
    html.extend(suite.notes.iter().map(|note| format!("<p class=\"soft\">note: {}</p>\n", markup(note))));
    if let Some(machines) = &suite.machines {
        let is_open = if status == Status::Ok { "" } else { " open" };
        html +=
            &format!("<details{is_open}><summary>Topology</summary>\n{}</details>\n", picture::render(machines, suite));
    }
    let mut cases: Vec<&Case> = suite.cases.iter().collect();
    cases.sort_by_key(|case| (std::cmp::Reverse(case.status), !case.flaky));
    html.extend(cases.iter().map(|one| case::render(one)));
    html + "</section>\n"
}
