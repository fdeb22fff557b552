//! What a run and its workers say to each other.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::input::Diagnostics;
use crate::report::{TestReport, Trouble};
use crate::run::attempt::Attempt;
use crate::scenario::{Scenario, Tests, parse_with};

/// An attempt to carry out. The scenario comes as text, as it was read for the run: its files may be pipes, or change.
#[derive(Serialize, Deserialize)]
pub(super) struct Order<'a> {
    file: Cow<'a, OsStr>,
    /// The texts of all its files.
    texts: BTreeMap<Cow<'a, OsStr>, Cow<'a, str>>,
    /// The names of its tests in the order of the run.
    tests: Vec<Cow<'a, str>>,
    pub(super) attempt: Cow<'a, Attempt>,
}

impl<'a> Order<'a> {
    pub(super) fn new(scenario: &'a Scenario, attempt: &'a Attempt) -> Self {
        let text = |(file, text): (&'a std::path::PathBuf, &'a std::sync::Arc<str>)| {
            (Cow::Borrowed(file.as_os_str()), Cow::Borrowed(&**text))
        };
        Self {
            file: Cow::Borrowed(scenario.file.as_os_str()),
            texts: scenario.inputs.iter().map(text).collect(),
            tests: scenario.tests.iter().map(|test| Cow::Borrowed(test.name.as_str())).collect(),
            attempt: Cow::Borrowed(attempt),
        }
    }

    /// The scenario of the run.
    pub(super) fn scenario(&self) -> Result<Scenario, Diagnostics> {
        let read = |file: &Path| {
            let text = self.texts.get(file.as_os_str()).ok_or(io::ErrorKind::NotFound)?;
            Ok(text.clone().into_owned())
        };
        let text = self.texts.get(&self.file).map(|text| &**text).unwrap_or_default();
        let mut scenario = parse_with(text, Path::new(&self.file), &read, Tests::Optional)?;
        let place = |name: &str| self.tests.iter().position(|other| other == name);
        scenario.tests.sort_by_cached_key(|test| place(&test.name));
        Ok(scenario)
    }
}

/// What a run answers to [`Message::Starts`].
#[derive(Serialize, Deserialize)]
pub(super) enum Answer {
    /// The test may start.
    Start,
    /// Neither it nor one after it may.
    Stop,
}

/// What a worker says.
#[derive(Serialize, Deserialize)]
pub(super) enum Message {
    /// The test at this index is about to start; an [`Answer`] is awaited.
    Starts(usize),
    /// A test has ended.
    Ended(Box<TestReport>),
    /// How many flows of counts in progress are counted, and the most there will be.
    Counts { counted: u64, wanted: u64 },
    /// The attempt has ended.
    Done(Vec<TestReport>, Option<Trouble>),
}
