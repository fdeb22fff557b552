//! Reports other than the one on the console: chosen on the command line, tried before the run, written after it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Exit;
use super::console::Console;
use svclab::environment::Environment;
use svclab::output::{Destination, Place, replace};
use svclab::report::{RunReport, github, json, junit};
use svclab::text::{printable, reason};

/// A report other than the one on the console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Report {
    Junit(PathBuf),
    Json(PathBuf),
    Github,
}

impl std::str::FromStr for Report {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some(("junit", file)) if !file.is_empty() => Ok(Self::Junit(file.into())),
            Some(("json", file)) if !file.is_empty() => Ok(Self::Json(file.into())),
            None if text == "github" => Ok(Self::Github),
            _ => Err("a report is junit=FILE, json=FILE or github; `-` is standard output".to_owned()),
        }
    }
}

impl Report {
    fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::Junit(file) | Self::Json(file) => Some(file),
            Self::Github => None,
        }
    }

    /// Where it goes: annotations for GitHub are read from standard output.
    fn place(&self) -> io::Result<Place> {
        self.file().map_or(Ok(Place::Stdout), |file| Place::of(file))
    }

    fn render(&self, report: &RunReport, environment: &Environment) -> Result<String, String> {
        match self {
            Self::Junit(_) => junit::render(report).map_err(|error| error.to_string()),
            Self::Json(_) => environment.envelop(json::document(report)).map_err(|error| error.to_string()),
            Self::Github => Ok(github::render(report)),
        }
    }
}

/// The reports of a run, with where they go.
#[derive(Debug)]
pub(super) struct Reports(Vec<(Report, Destination)>);

impl Reports {
    /// Finds paths that cannot be written to before the run. None of these inputs is overwritten, and standard output is one
    /// report's at most; what else is said goes to standard error then.
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
        // Only when no two reports collide is anything tried.
        let open = |(report, place): (&Report, Place)| match Destination::open(place) {
            Ok(destination) => Ok((report.clone(), destination)),
            Err(error) => Err(complain(report, &error, console)),
        };
        let opened = places.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        if opened.iter().any(|(report, to)| report.file().is_some() && matches!(to, Destination::Stdout)) {
            console.lend_stdout();
        }
        Ok(Self(opened))
    }

    /// Writes all of them; one that fails keeps none of the others back.
    pub(super) fn write(self, run: &RunReport, environment: &Environment, console: &Console) -> Result<(), Exit> {
        let mut failed = None;
        for (report, destination) in self.0 {
            match report.render(run, environment) {
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
        }
        failed.map_or(Ok(()), Err)
    }
}

fn write(report: &Report, destination: Destination, text: &str, console: &Console) -> io::Result<()> {
    match destination {
        Destination::Stdout if *report == Report::Github => {
            console.commands(text);
            Ok(())
        }
        Destination::Stdout => console.document(text),
        Destination::Open(mut file) => file.write_all(text.as_bytes()),
        Destination::File(place) => replace(&place, text.as_bytes()),
    }
}

/// Why a report cannot go where something else is.
fn conflict(report: &Report, place: &Place) -> String {
    match place {
        Place::Stdout => {
            "two reports would be written to standard output\nhelp: Give all but one of them a file, as `--report \
             json=report.json`."
                .to_owned()
        }
        _ => {
            let file = report.file().map(|file| printable(file).to_string()).unwrap_or_default();
            format!("the report {file} would overwrite an input of the run or another report")
        }
    }
}

/// Says that a report cannot be written; what that means before the run.
fn complain(report: &Report, error: &io::Error, console: &Console) -> Exit {
    let file = report.file().map(|file| printable(file).to_string()).unwrap_or_default();
    console.complain(format!("the report {file} cannot be written: {}", reason(error)));
    Exit::Input
}
