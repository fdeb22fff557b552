//! Reports beside the one on the console: chosen on the command line, opened before the run, written after it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

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
            Some((_, "-")) => Err("a report is written to a file: write /dev/stdout for standard output".to_owned()),
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

/// The place of a file under a name that tells it from all others, whether it is there already or not; `None` for pipes
/// and devices, which many can write to.
fn regular_file(path: &Path) -> Option<PathBuf> {
    match fs::canonicalize(path) {
        Ok(place) => place.is_file().then_some(place),
        Err(_) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            Some(fs::canonicalize(folder).ok()?.join(path.file_name()?))
        }
    }
}

/// The reports of a run, with their files open.
#[derive(Debug)]
pub(super) struct Reports(Vec<(Report, Option<File>)>);

impl Reports {
    /// Creates the files, so that a path that cannot be written to is found before the run, and none of these inputs
    /// is overwritten.
    pub(super) fn open<'p>(
        wanted: &[Report],
        inputs: impl Iterator<Item = &'p Path>,
        console: &Console,
    ) -> Result<Self, Exit> {
        let mut taken: Vec<PathBuf> = inputs.filter_map(regular_file).collect();
        for path in wanted.iter().filter_map(Report::file) {
            let Some(place) = regular_file(path) else { continue };
            if taken.contains(&place) {
                let path = path.display();
                console.complain(format!("the report {path} would overwrite a scenario or another report"));
                return Err(Exit::Input);
            }
            taken.push(place);
        }
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
