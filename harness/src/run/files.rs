//! The files of an attempt: its capture, and the artifacts of failed tests. The run's own process writes them, wherever the lab was.

use std::path::Path;
use std::{fs, io};

use super::attempt::{Attempt, LabArtifacts};
use super::{RunError, artifacts, capture};
use crate::environment::Environment;
use crate::output;
use crate::report::{TestReport, pcapng};
use crate::scenario::Scenario;

/// Writes the files of an attempt; `environment` is that of its lab, if it differs from this process's.
///
/// # Errors
///
/// The first file that cannot be written; the others are written all the same.
pub(super) fn write(
    kept: &LabArtifacts,
    scenario: &Scenario,
    attempt: &Attempt,
    tests: &[TestReport],
    environment: Option<&Environment>,
) -> Result<(), RunError> {
    let capture = attempt.capture(scenario).filter(|_| !kept.frames.is_empty());
    let captured = capture.map_or(Ok(()), |folder| write_capture(kept, folder, scenario, &attempt.suffix));
    let folder = attempt.artifacts.as_ref().map(|folder| artifacts::Folder {
        folder: Path::new(folder),
        scenario,
        programs: attempt.programs.as_ref(),
        suffix: &attempt.suffix,
        environment,
    });
    captured.and(folder.map_or(Ok(()), |folder| artifacts::write(&folder, tests, kept)))
}

/// Writes the captured frames to the scenario's file below the folder: see [`capture::place`].
fn write_capture(kept: &LabArtifacts, folder: &Path, scenario: &Scenario, suffix: &str) -> Result<(), RunError> {
    let file = capture::place(folder, &scenario.file, &format!("{suffix}{}", capture::CAPTURE));
    let written = pcapng::render(&kept.frames).map_err(io::Error::other).and_then(|bytes| {
        fs::create_dir_all(file.parent().unwrap_or(folder))?;
        output::replace(&file, &bytes)
    });
    written.map_err(|source| RunError::Pcap { file, source })
}
