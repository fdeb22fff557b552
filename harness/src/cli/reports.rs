//! Reports beside the one on the console: chosen on the command line, opened before the run, written after it.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use super::Exit;
use super::console::Console;
use crate::report::{RunReport, github, json, junit};
use crate::text::reason;

/// A report beside the one on the console.
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
            _ => Err("a report is junit=FILE, json=FILE or github".to_owned()),
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

    fn render(&self, report: &RunReport) -> Result<String, String> {
        match self {
            Self::Junit(_) => junit::render(report).map_err(|error| error.to_string()),
            Self::Json(_) => json::render(report).map_err(|error| error.to_string()),
            Self::Github => Ok(github::render(report)),
        }
    }
}

/// The reports of a run, with their files open.
#[derive(Debug)]
pub(super) struct Reports(Vec<(Report, Option<File>)>);

impl Reports {
    /// Creates the files, so that a path that cannot be written to is found before the run.
    pub(super) fn open(wanted: &[Report], console: &Console) -> Result<Self, Exit> {
        let open = |report: &Report| match report.file().map(|path| (path, File::create(path))) {
            Some((path, Err(error))) => {
                console.complain(format!("the report {} cannot be written: {}", path.display(), reason(&error)));
                Err(Exit::Input)
            }
            file => Ok((report.clone(), file.and_then(|(_, file)| file.ok()))),
        };
        wanted.iter().map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Writes all of them; one that fails keeps none of the others back.
    pub(super) fn write(self, run: &RunReport, console: &Console) -> Result<(), Exit> {
        let mut failed = None;
        for (report, file) in self.0 {
            let text = match report.render(run) {
                Ok(text) => text,
                Err(error) => {
                    console.complain(format!("a report cannot be made: {error}"));
                    failed = Some(Exit::Internal);
                    continue;
                }
            };
            let Some(mut file) = file else {
                console.text(text);
                continue;
            };
            if let Err(error) = file.write_all(text.as_bytes()) {
                let path = report.file().map(|path| path.display().to_string()).unwrap_or_default();
                console.complain(format!("the report {path} cannot be written: {}", reason(&error)));
                failed = failed.or(Some(Exit::Environment));
            }
        }
        failed.map_or(Ok(()), Err)
    }
}
