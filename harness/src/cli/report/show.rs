//! `svclab report show`: a failed test, all failed tests in a folder, or a JSON report.

use std::path::{Path, PathBuf};

use super::{complain, exit};
use crate::cli::Exit;
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::cli::reports::{ReportArgs, Reports};
use svclab::input::read_argument;
use svclab::results::{Case, Results, summary};
use svclab::run::RESULT;
use svclab::text::{counted, one_line, printable, reason};

/// Print a failed test from its artifacts folder, list the failed tests in such a folder, or print a JSON report.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder of `svclab run --artifacts`, to list its failed tests; the folder of one test in it; or a file written by `--report
    /// json=FILE`.
    path: PathBuf,
    #[command(flatten)]
    reports: ReportArgs,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &Console) -> Result<Exit, Exit> {
    let path = args.path.as_path();
    if !path.is_dir() || path.join(RESULT).exists() {
        return one(args, console);
    }
    let mut folders = folders_with_result(path);
    folders.sort();
    if folders.is_empty() {
        let message = format!("{}: this folder has no failed test in it", printable(path));
        let help = "Pass the folder of `svclab run --artifacts`, to which only tests that do not pass are written, or a JSON report.";
        return Err(Failure::new(message, help).report(console));
    }
    if args.reports.is_asked() {
        let message = format!("{}: --report takes one test, and this folder has {}", printable(path), folders.len());
        let help = "Pass the folder of one test; `svclab run --report` makes reports of all tests.";
        return Err(Failure::new(message, help).report(console));
    }
    list(path, &folders, console)
}

/// Prints one failed test, or the report in a file.
fn one(args: &Args, console: &Console) -> Result<Exit, Exit> {
    let file = if args.path.is_dir() { args.path.join(RESULT) } else { args.path.clone() };
    let (text, results) = read(&file, console)?;
    let reports = Reports::open(&args.reports.report, [file.as_path()].into_iter(), console)?;
    for suite in &results.suites {
        console.line(format!("{}  {}", suite.name, suite.file));
        suite.cases.iter().filter_map(|case| case.text.as_ref()).for_each(|text| console.text(text));
    }
    if args.path.is_dir() {
        let mut files = files_below(&args.path, &args.path);
        files.sort();
        files.iter().for_each(|file| console.line(format!("  {}", printable(file))));
    }
    console.line(summary::line(&results));
    let written = reports.write_all(&text, &results, console);
    written.map(|()| exit(&results))
}

/// Prints the names of the failed tests below a folder. Returns the most severe exit code.
fn list(root: &Path, folders: &[PathBuf], console: &Console) -> Result<Exit, Exit> {
    let mut all: Option<Results> = None;
    for folder in folders {
        let (_, results) = read(&folder.join(RESULT), console)?;
        let below = folder.strip_prefix(root).unwrap_or(folder);
        for (suite, case) in results.suites.iter().flat_map(|suite| suite.cases.iter().map(move |case| (suite, case))) {
            let Case { name, status, .. } = case;
            console.line(format!(
                "{}\n  {}  {}: {}",
                printable(below),
                status.as_str(),
                one_line(&suite.name),
                one_line(name)
            ));
        }
        match &mut all {
            Some(all) => all.suites.extend(results.suites),
            None => all = Some(results),
        }
    }
    let those = counted(folders.len(), "test");
    console.line(format!("{those} did not pass; `svclab report show {}/FOLDER` prints one", printable(root)));
    Ok(all.as_ref().map_or(Exit::Held, exit))
}

fn read(file: &Path, console: &Console) -> Result<(String, Results), Exit> {
    let text = read_argument(file).map_err(|error| complain(file, &reason(&error), console))?;
    let results = Results::read(&text).map_err(|error| {
        console
            .complain(format!("{}: {error}\nhelp: Pass a folder of a failed test, or a JSON report.", printable(file)));
        Exit::Input
    })?;
    Ok((text, results))
}

/// Returns the folders below a folder that have a result. Links are not followed, and folders with a result are not searched further.
fn folders_with_result(folder: &Path) -> Vec<PathBuf> {
    if folder.join(RESULT).is_file() {
        return vec![folder.to_owned()];
    }
    entries(folder).filter(|(_, is_folder)| *is_folder).flat_map(|(path, _)| folders_with_result(&path)).collect()
}

/// Returns the files below a folder, relative to it. Links are not followed.
fn files_below(folder: &Path, root: &Path) -> Vec<PathBuf> {
    let of = |(path, is_folder): (PathBuf, bool)| match is_folder {
        true => files_below(&path, root),
        false => path.strip_prefix(root).map(|file| vec![file.to_owned()]).unwrap_or_default(),
    };
    entries(folder).flat_map(of).collect()
}

/// Returns the entries of a folder, each with whether it is a folder.
fn entries(folder: &Path) -> impl Iterator<Item = (PathBuf, bool)> {
    let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
    all.map(|entry| (entry.path(), entry.file_type().is_ok_and(|kind| kind.is_dir())))
}
