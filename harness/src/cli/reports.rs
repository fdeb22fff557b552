//! Reports other than the one on the console: chosen on the command line, opened before the run, written after it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde::Serialize;

use super::Exit;
use super::console::Console;
use svclab::environment::Environment;
use svclab::output::{Destination, Place, replace};
use svclab::results::github::Folders;
use svclab::results::{Results, github, html, junit, summary, tap};
use svclab::scenario::Scenario;
use svclab::text::{printable, reason};

/// Options for reports.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ReportArgs {
    /// Write reports: junit=FILE, json=FILE, tap=FILE, html=FILE, summary=FILE (Markdown), github (annotations on standard output, and
    /// the job's summary in $GITHUB_STEP_SUMMARY). With `-` as FILE, the report goes to standard output and everything else to
    /// standard error.
    #[arg(long, value_name = "KIND[=FILE]", value_delimiter = ',')]
    pub(super) report: Vec<Report>,
}

impl ReportArgs {
    /// Returns whether there are any.
    pub(super) fn is_asked(&self) -> bool {
        !self.report.is_empty()
    }

    /// Returns whether a report goes to standard output.
    pub(super) fn take_stdout(&self) -> bool {
        self.report.iter().any(|report| report.file.as_deref() == Some(Path::new("-")))
    }
}

/// A report other than the one on the console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    kind: Kind,
    /// The file; annotations for GitHub are read from standard output.
    file: Option<PathBuf>,
}

/// The kinds of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Junit,
    Json,
    Tap,
    Html,
    Summary,
    Github,
}

impl std::str::FromStr for Report {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, file) = text.split_once('=').map_or((text, None), |(name, file)| (name, Some(PathBuf::from(file))));
        let kind = match (name, &file) {
            ("github", None) => Kind::Github,
            ("junit", Some(_)) => Kind::Junit,
            ("json", Some(_)) => Kind::Json,
            ("tap", Some(_)) => Kind::Tap,
            ("html", Some(_)) => Kind::Html,
            ("summary", Some(_)) => Kind::Summary,
            _ => return Err(EXPECTED.to_owned()),
        };
        if file.as_ref().is_some_and(|file| file.as_os_str().is_empty()) {
            Err(EXPECTED.to_owned())
        } else {
            Ok(Self { kind, file })
        }
    }
}

const EXPECTED: &str =
    "a report is junit=FILE, json=FILE, tap=FILE, html=FILE, summary=FILE or github; `-` is standard output";

impl Report {
    fn place(&self) -> io::Result<Place> {
        self.file.as_ref().map_or(Ok(Place::Stdout), |file| Place::of(file))
    }

    fn render(&self, json: &str, results: &Results) -> Result<String, String> {
        Ok(match self.kind {
            Kind::Junit => junit::render(results).map_err(|error| error.to_string())?,
            Kind::Json => json.to_owned(),
            Kind::Tap => tap::render(results),
            Kind::Html => html::render(results),
            Kind::Summary => summary::render(results),
            Kind::Github => github::annotations(results, &folders()),
        })
    }
}

/// Returns the repository's root, from GitHub Actions, and the working directory.
fn folders() -> Folders {
    let root = env::var_os("GITHUB_WORKSPACE").map(PathBuf::from).and_then(|root| root.canonicalize().ok());
    Folders { root: root.unwrap_or_default(), working: env::current_dir().unwrap_or_default() }
}

/// Returns the file that GitHub Actions shows on the job's page.
fn job_summary() -> Option<PathBuf> {
    env::var_os("GITHUB_STEP_SUMMARY").filter(|file| !file.is_empty()).map(PathBuf::from)
}

fn append(file: &Path, text: &str) -> io::Result<()> {
    fs::OpenOptions::new().append(true).create(true).open(file)?.write_all(text.as_bytes())
}

/// The reports of a run, with their files.
#[derive(Debug)]
pub(super) struct Reports(Vec<(Report, Destination)>);

impl Reports {
    /// Opens the reports for scenarios, none of whose files may be overwritten.
    pub(super) fn of(args: &ReportArgs, scenarios: &[Scenario], console: &Console) -> Result<Self, Exit> {
        let inputs = scenarios.iter().flat_map(|scenario| scenario.inputs.keys());
        Self::open(&args.report, inputs.map(PathBuf::as_path), console)
    }

    /// Opens the reports, to find paths that cannot be written before the run. No input is overwritten, and at most one report goes to
    /// standard output; everything else then goes to standard error.
    pub(super) fn open<'p>(
        wanted: &[Report],
        inputs: impl Iterator<Item = &'p Path>,
        console: &Console,
    ) -> Result<Self, Exit> {
        let mut taken: Vec<Place> = inputs.filter_map(|input| Place::of(input).ok()).collect();
        taken.retain(|place| matches!(place, Place::File(_)));
        let mut places = Vec::new();
        for report in wanted {
            let place = report.place().map_err(|error| complain(report, &error, console))?;
            if let (Place::File(_) | Place::Stdout, true) = (&place, taken.contains(&place)) {
                console.complain(conflict(report, &place));
                return Err(Exit::Input);
            }
            taken.push(place.clone());
            places.push((report, place));
        }
        // Files are only opened if no two reports collide.
        let open = |(report, place): (&Report, Place)| match Destination::open(place) {
            Ok(destination) => Ok((report.clone(), destination)),
            Err(error) => Err(complain(report, &error, console)),
        };
        if let Some(file) = job_summary().filter(|_| wanted.iter().any(|report| report.kind == Kind::Github)) {
            append(&file, "").map_err(|error| complain_of(&file, &error, console))?;
        }
        let opened = places.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        if opened.iter().any(|(report, to)| report.file.is_some() && matches!(to, Destination::Stdout)) {
            console.lend_stdout();
        }
        Ok(Self(opened))
    }

    /// Writes the result of a command to all reports; a failure does not affect the others.
    pub(super) fn write(
        self,
        command: &str,
        environment: &Environment,
        result: impl Serialize,
        console: &Console,
    ) -> Result<(), Exit> {
        if self.0.is_empty() {
            return Ok(());
        }
        let internal = |error: &dyn std::fmt::Display| {
            console.complain(format!("reports cannot be made: {error}"));
            Exit::Internal
        };
        let json = environment.envelop(command, result).map_err(|error| internal(&error))?;
        let results = Results::read(&json).map_err(|error| internal(&error))?;
        self.write_all(&json, &results, console)
    }

    /// Writes results to all reports.
    pub(super) fn write_all(self, json: &str, results: &Results, console: &Console) -> Result<(), Exit> {
        let mut failed = None;
        for (report, destination) in self.0 {
            match report.render(json, results) {
                Ok(text) => {
                    if let Err(error) = write(&report, destination, &text, console) {
                        complain(&report, &error, console);
                        failed = failed.or(Some(Exit::Environment));
                    }
                }
                Err(error) => {
                    console.complain(format!("a report cannot be made: {error}"));
                    failed = Some(Exit::Internal);
                }
            }
            if let Some(file) = job_summary().filter(|_| report.kind == Kind::Github)
                && let Err(error) = append(&file, &summary::render(results))
            {
                complain_of(&file, &error, console);
                failed = failed.or(Some(Exit::Environment));
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

fn write(report: &Report, destination: Destination, text: &str, console: &Console) -> io::Result<()> {
    match destination {
        Destination::Stdout if report.kind == Kind::Github => {
            console.commands(text);
            Ok(())
        }
        Destination::Stdout => console.document(text),
        Destination::Open(mut file) => file.write_all(text.as_bytes()),
        Destination::File(place) => replace(&place, text.as_bytes()),
    }
}

/// Returns the message for a report that would overwrite something else.
fn conflict(report: &Report, place: &Place) -> String {
    match place {
        Place::Stdout => {
            "two reports would be written to standard output\nhelp: Give all but one of them a file, as `--report \
             json=report.json`."
                .to_owned()
        }
        _ => {
            let file = report.file.as_ref().map(|file| printable(file).to_string()).unwrap_or_default();
            format!("the report {file} would overwrite an input of the run or another report")
        }
    }
}

/// Prints that a report cannot be written.
fn complain(report: &Report, error: &io::Error, console: &Console) -> Exit {
    complain_of(report.file.as_deref().unwrap_or(Path::new("")), error, console)
}

fn complain_of(file: &Path, error: &io::Error, console: &Console) -> Exit {
    console.complain(format!("the report {} cannot be written: {}", printable(file), reason(error)));
    Exit::Input
}
