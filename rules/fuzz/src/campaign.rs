//! Fuzzing campaigns: many executions of a target.

use std::fs;
use std::num::ParseIntError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::dice::Dice;
use crate::mutate::mutated;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, which is also that of its cargo-fuzz program.
    pub name: &'static str,
    /// Inputs to start from.
    pub corpus: fn() -> Vec<Vec<u8>>,
    /// Panics if a property does not hold for an input.
    pub check: fn(&[u8]),
}

/// Executions of targets with inputs derived from a seed.
#[derive(Debug, Clone, Copy)]
pub struct Campaign {
    /// The seed.
    pub seed: u64,
    /// The length.
    pub length: Length,
}

/// The length of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// This many executions.
    Executions(u64),
    /// As many executions as fit into this time.
    Time(Duration),
}

/// `1000`, or `90s`.
impl FromStr for Length {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_suffix('s') {
            Some(seconds) => seconds.parse().map(|seconds| Self::Time(Duration::from_secs(seconds))),
            None => text.parse().map(Self::Executions),
        }
    }
}

impl Length {
    fn has(self, executions: u64, since: Instant) -> bool {
        match self {
            Self::Executions(most) => executions < most,
            Self::Time(time) => since.elapsed() < time,
        }
    }
}

/// The result of a campaign.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The number of executions.
    pub executions: u64,
    /// Their total time.
    pub time: Duration,
    /// The slowest input, and its time.
    pub slowest: (Duration, Vec<u8>),
    /// An input for which a property does not hold, reduced as far as possible.
    pub failure: Option<Vec<u8>>,
}

impl Campaign {
    /// Executes a target alternately with the corpus and with mutations of it, so that a short campaign has both. Stops at the first
    /// failure.
    pub fn run(&self, target: &Target) -> Report {
        let corpus = (target.corpus)();
        let (mut report, begin) = (Report::default(), Instant::now());
        while self.length.has(report.executions, begin) {
            let execution = report.executions;
            let known = usize::try_from(execution / 2).ok().filter(|_| execution % 2 == 0);
            let known = known.and_then(|position| corpus.get(position)).cloned();
            let input = known.unwrap_or_else(|| mutated(&corpus, &mut Dice::of(self.seed, execution)));
            report.executions += 1;
            let start = Instant::now();
            if fails(target, &input) {
                report.failure = Some(reduced(target, input));
                break;
            }
            let taken = start.elapsed();
            if taken > report.slowest.0 {
                report.slowest = (taken, input);
            }
        }
        report.time = begin.elapsed();
        report
    }
}

/// Runs a few executions of each target, for tests.
///
/// # Panics
///
/// If a property does not hold.
pub fn assert_all(targets: &[Target], executions: u64) {
    for target in targets {
        let report = Campaign { seed: 1, length: Length::Executions(executions) }.run(target);
        let failure = report.failure.as_deref().map(String::from_utf8_lossy);
        assert_eq!(failure, None, "target {}", target.name);
        assert_eq!(report.executions, executions, "target {}", target.name);
    }
}

/// Asserts that every target has its libFuzzer program in a package. Tests cannot link these, so their source is compared.
///
/// # Panics
///
/// If one is missing, differs, or belongs to no target.
pub fn assert_programs(targets: &[Target], package: &Path, library: &str) {
    let folder = package.join("fuzz_targets");
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    files.sort();
    let mut expected: Vec<PathBuf> = targets.iter().map(|target| folder.join(format!("{}.rs", target.name))).collect();
    expected.sort();
    assert_eq!(files, expected);
    for Target { name, .. } in targets {
        let path = format!("{library}::targets::{name}");
        let program = format!(
            "//! libFuzzer's entrance to [`{path}`].\n#![no_main]\n\nlibfuzzer_sys::fuzz_target!(|data: &[u8]| {path}::check(data));\n"
        );
        assert_eq!(fs::read_to_string(folder.join(format!("{name}.rs"))).ok(), Some(program), "target {name}");
    }
}

fn fails(target: &Target, input: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| (target.check)(input))).is_err()
}

/// Reduces a failing input to the parts that are needed for the failure.
fn reduced(target: &Target, mut input: Vec<u8>) -> Vec<u8> {
    let mut length = input.len() / 2;
    while length > 0 {
        let mut at = 0;
        while at < input.len() {
            let mut shorter = input.clone();
            shorter.drain(at..(at + length).min(input.len()));
            if fails(target, &shorter) {
                input = shorter;
            } else {
                at += length;
            }
        }
        length /= 2;
    }
    input
}

/// Runs a campaign from a command line, `EXECUTIONS|SECONDSs SEED [TARGET...]`, prints the result of each target, and fails if a property
/// does not hold. The inputs of failures are written to the working directory.
#[expect(clippy::print_stdout, reason = "it is what a program prints")]
pub fn main(targets: &[Target]) -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let length = arguments.next().and_then(|text| text.parse().ok());
    let seed = arguments.next().and_then(|text| text.parse().ok());
    let (Some(length), Some(seed)) = (length, seed) else {
        println!("usage: EXECUTIONS|SECONDSs SEED [TARGET...]");
        return ExitCode::from(2);
    };
    let chosen: Vec<String> = arguments.collect();
    let mut exit = ExitCode::SUCCESS;
    for target in targets.iter().filter(|target| chosen.is_empty() || chosen.iter().any(|name| name == target.name)) {
        let report = Campaign { seed, length }.run(target);
        let ((slowest, input), executions) = (&report.slowest, report.executions);
        let rate = executions as f64 / report.time.as_secs_f64();
        println!(
            "{}: {executions} executions, {rate:.0} a second, the slowest {slowest:?} for {} bytes",
            target.name,
            input.len()
        );
        if let Some(input) = &report.failure {
            let file = format!("{}-{seed}.failure", target.name);
            let written = fs::write(&file, input).map_or_else(|error| error.to_string(), |()| "written".to_owned());
            println!("{}: a property does not hold for the input in {file} ({written})", target.name);
            exit = ExitCode::FAILURE;
        }
    }
    exit
}
