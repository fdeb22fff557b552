//! Reports beside the one on the console: chosen on the command line, tried before the run, written after it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
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

/// Where a report goes.
#[derive(Debug)]
enum Target {
    /// Standard output.
    Console,
    /// A file, which is replaced as a whole when the report is there.
    Place(PathBuf),
    /// What is no regular file: a pipe or a device.
    Open(File),
}

impl Target {
    /// The target of a report; finds what can be found before a report is written, and changes nothing yet.
    fn of(report: &Report) -> io::Result<Self> {
        let Some(path) = report.file() else { return Ok(Self::Console) };
        let Some(place) = regular_file(path) else { return File::create(path).map(Self::Open) };
        match File::options().write(true).create_new(true).open(&place) {
            Ok(_) => fs::remove_file(&place)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                File::options().write(true).open(&place)?;
            }
            Err(error) => return Err(error),
        }
        Ok(Self::Place(place))
    }

    fn write(self, text: &str, console: &Console) -> io::Result<()> {
        match self {
            Self::Console => {
                console.text(text);
                Ok(())
            }
            Self::Open(mut file) => file.write_all(text.as_bytes()),
            Self::Place(place) => replace(&place, text),
        }
    }
}

/// Writes a file under another name first, so that whoever reads it finds the old text or the new one, and nothing in between.
fn replace(place: &Path, text: &str) -> io::Result<()> {
    let mut name = OsString::from(".");
    name.push(place.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    let new = place.with_file_name(name);
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, place));
    written.inspect_err(|_| {
        // It may not even be there.
        let _ = fs::remove_file(&new);
    })
}

/// The place of a file under a name that tells it from all others, whether it is there already or not; `None` for pipes
/// and devices, which many can write to, and for what can be no file.
fn regular_file(path: &Path) -> Option<PathBuf> {
    match fs::canonicalize(path) {
        Ok(place) => place.is_file().then_some(place),
        Err(_) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            Some(fs::canonicalize(folder).ok()?.join(path.file_name()?))
        }
    }
}

/// The reports of a run, with where they go.
#[derive(Debug)]
pub(super) struct Reports(Vec<(Report, Target)>);

impl Reports {
    /// Finds paths that cannot be written to before the run. None of these inputs is overwritten.
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
                console.complain(format!("the report {path} would overwrite an input of the run or another report"));
                return Err(Exit::Input);
            }
            taken.push(place);
        }
        let open = |report: &Report| match Target::of(report) {
            Ok(target) => Ok((report.clone(), target)),
            Err(error) => {
                complain(report, &error, console);
                Err(Exit::Input)
            }
        };
        wanted.iter().map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Writes all of them; one that fails keeps none of the others back.
    pub(super) fn write(self, run: &RunReport, console: &Console) -> Result<(), Exit> {
        let mut failed = None;
        for (report, target) in self.0 {
            match report.render(run) {
                Ok(text) => {
                    if let Err(error) = target.write(&text, console) {
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

fn complain(report: &Report, error: &io::Error, console: &Console) {
    let path = report.file().map(|path| path.display().to_string()).unwrap_or_default();
    console.complain(format!("the report {path} cannot be written: {}", reason(error)));
}
