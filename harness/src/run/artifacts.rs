//! The artifacts of failed tests: one folder for each test.
//!
//! ```text
//! FOLDER/scenarios/a.yaml/02-the-source-is-kept/
//!   result.json       the test as `--report json=FILE` has it, with the three sources
//!   failure.txt       the same as printed
//!   scenario.txt      where the scenario is below inputs/
//!   trace.txt         the rules that the kernel matched when the flow was sent again
//!   inputs/           the scenario, and the files that it names
//!   capture.pcapng    the frames of its flows that were followed
//!   node/worker/      rules with counters, connections, addresses, routes of each namespace that has rules, when it had failed
//! ```

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::{fs, path};

use super::attempt::LabArtifacts;
use super::{RunError, capture, node_programs};
use crate::environment::Environment;
use crate::lab::{Backend, Listing};
use crate::observation::Capture;
use crate::output;
use crate::page::Settings;
use crate::proxy::Programs;
use crate::report::{Machines, RunReport, ScenarioReport, Status, TestReport, console, json, pcapng};
use crate::scenario::Scenario;

/// The file with the result.
pub const RESULT: &str = "result.json";
/// The file that names the scenario, relative to the folder.
pub const SCENARIO: &str = "scenario.txt";

/// Where the artifacts of a scenario are written.
pub(super) struct Folder<'a> {
    /// The folder of all scenarios.
    pub(super) folder: &'a Path,
    /// The scenario.
    pub(super) scenario: &'a Scenario,
    /// The programs that wrote the rules.
    pub(super) programs: Option<&'a Programs>,
    /// The suffix of folder names: repetition and retry.
    pub(super) suffix: &'a str,
    /// The environment of the lab, if it differs from this process's.
    pub(super) environment: Option<&'a Environment>,
}

/// Removes artifacts that earlier runs left for a scenario, so that they are not mistaken for this run's. Other files are kept.
pub(super) fn clear(folder: &Path, scenario: &Path) {
    for all in capture::left(folder, scenario, "") {
        let tests = fs::read_dir(&all).into_iter().flatten().flatten().map(|entry| entry.path());
        // Files that cannot be removed are overwritten, or writing fails with the reason.
        tests.filter(|test| test.join(RESULT).is_file()).for_each(|test| _ = fs::remove_dir_all(test));
        let _ = fs::remove_dir(all);
    }
}

/// Writes a folder for each test that failed.
pub(super) fn write(to: &Folder<'_>, tests: &[TestReport], kept: &LabArtifacts) -> Result<(), RunError> {
    let all = capture::place(to.folder, &to.scenario.file, to.suffix);
    for test in tests.iter().filter(|test| test.status() != Status::Ok) {
        // The same test has the same number in each attempt.
        let number = to.scenario.tests.iter().position(|one| one.name == test.name).map_or(0, |index| index + 1);
        let folder = all.join(format!("{number:02}-{}", slug(&test.name)));
        let state = kept.states.get(&test.name).map(Vec::as_slice).unwrap_or_default();
        one(&folder, to, test, state, &kept.frames).map_err(|source| RunError::Pcap { file: folder, source })?;
    }
    Ok(())
}

fn one(folder: &Path, to: &Folder<'_>, test: &TestReport, state: &[Listing], frames: &[Capture]) -> io::Result<()> {
    let scenario = to.scenario;
    let report = RunReport {
        scenarios: vec![ScenarioReport {
            name: scenario.name.clone(),
            file: scenario.file.clone(),
            programs: node_programs(scenario, to.programs),
            machines: Machines::of(scenario),
            tests: vec![test.clone()],
            duration: test.duration,
            ..ScenarioReport::default()
        }],
        duration: test.duration,
        ..RunReport::default()
    };
    let environment = to.environment.map_or_else(|| Cow::Owned(Environment::of(Backend::System)), Cow::Borrowed);
    let text = environment.envelop("run", json::document(&report)).map_err(io::Error::other)?;
    keep(folder, RESULT, text.as_bytes())?;
    keep(folder, "failure.txt", console::test(test, Settings::default()).as_bytes())?;
    keep(folder, SCENARIO, inputs(folder, scenario)?.as_bytes())?;
    let traces = test.probes.iter().filter_map(|probe| probe.diagnosis.as_ref()).flat_map(|sources| &sources.trace);
    let trace: String = traces.map(|line| format!("{line}\n")).collect();
    if !trace.is_empty() {
        keep(folder, "trace.txt", trace.as_bytes())?;
    }
    let start = format!("{}: ", test.name);
    let is_own = |frame: &&Capture| frame.comment.as_deref().is_some_and(|comment| comment.starts_with(&start));
    let own: Vec<Capture> = frames.iter().filter(is_own).cloned().collect();
    if !own.is_empty() {
        keep(folder, "capture.pcapng", &pcapng::render(&own).map_err(io::Error::other)?)?;
    }
    for Listing { netns, what, text } in state.iter().filter(|listing| !listing.text.is_empty()) {
        keep(&folder.join(netns), &format!("{what}.txt"), text.as_bytes())?;
    }
    Ok(())
}

/// Copies the files of a scenario, keeping their relative places. Returns the path of the scenario.
fn inputs(folder: &Path, scenario: &Scenario) -> io::Result<String> {
    // The link of a pipe has no path as its target.
    let absolute = |file: &Path| path::absolute(file).map(|file| file.canonicalize().unwrap_or(file));
    let own = absolute(&scenario.file)?;
    let files: Vec<(PathBuf, &str)> =
        scenario.inputs.iter().filter_map(|(file, text)| Some((absolute(file).ok()?, &**text))).collect();
    let root = own.ancestors().skip(1).find(|above| files.iter().all(|(file, _)| file.starts_with(above)));
    let root = root.unwrap_or(Path::new("/")).to_owned();
    let below = |file: &Path| Path::new("inputs").join(file.strip_prefix(&root).unwrap_or(file));
    for (file, text) in &files {
        let target = folder.join(below(file));
        keep(
            target.parent().unwrap_or(folder),
            &target.file_name().unwrap_or_default().to_string_lossy(),
            text.as_bytes(),
        )?;
    }
    Ok(crate::text::path_text(&below(&own)) + "\n")
}

fn keep(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    output::replace(&folder.join(name), bytes)
}

/// A name reduced to letters, digits and hyphens, for use in a path.
fn slug(name: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let words: String = name.chars().map(letter).collect();
    let parts: Vec<&str> = words.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-").chars().take(60).collect()
}
