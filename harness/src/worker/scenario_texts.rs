//! A scenario, parsed identically by both sides.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use svclab_rules::cluster::Cluster;

use crate::input::Diagnostics;
use crate::proxy::{self, Programs};
use crate::report::{Cause, Trouble};
use crate::scenario::{Scenario, Tests, parse_with};

/// A scenario as the texts that it was read from, because its files may be pipes, or change.
#[derive(Serialize, Deserialize)]
pub(crate) struct Texts<'a> {
    file: Cow<'a, OsStr>,
    /// The texts of all its files.
    texts: BTreeMap<Cow<'a, OsStr>, Cow<'a, str>>,
    /// The names of its tests, in order.
    tests: Vec<Cow<'a, str>>,
    /// The release and mode of its kube-proxy, which the command may have overridden.
    proxy: (Cow<'a, str>, Cow<'a, str>),
}

impl<'a> Texts<'a> {
    pub(crate) fn of(scenario: &'a Scenario) -> Self {
        let text =
            |(file, text): (&'a PathBuf, &'a Arc<str>)| (Cow::Borrowed(file.as_os_str()), Cow::Borrowed(&**text));
        Self {
            file: Cow::Borrowed(scenario.file.as_os_str()),
            texts: scenario.inputs.iter().map(text).collect(),
            tests: scenario.tests.iter().map(|test| Cow::Borrowed(test.name.as_str())).collect(),
            proxy: (
                Cow::Borrowed(&scenario.cluster.proxy.version),
                Cow::Owned(scenario.cluster.proxy.mode.to_string()),
            ),
        }
    }

    /// The text of its own file, and the file's name.
    pub(crate) fn text(&self) -> (&str, &Path) {
        let text = self.texts.get(&self.file).map(|text| &**text).unwrap_or_default();
        (text, Path::new(&self.file))
    }

    /// The text of another file.
    ///
    /// # Errors
    ///
    /// If the scenario has no file of this name.
    pub(crate) fn read(&self, file: &Path) -> io::Result<String> {
        let text = self.texts.get(file.as_os_str()).ok_or(io::ErrorKind::NotFound)?;
        Ok(text.clone().into_owned())
    }

    /// The scenario.
    ///
    /// # Errors
    ///
    /// If the texts do not give the same scenario, which is a bug in svclab.
    pub(crate) fn scenario(&self) -> Result<Scenario, Trouble> {
        let (text, file) = self.text();
        let parsed = parse_with(text, file, &|file| self.read(file), Tests::Optional);
        let mut scenario = parsed.map_err(|errors| misread(&errors))?;
        let place = |name: &str| self.tests.iter().position(|other| other == name);
        scenario.tests.sort_by_cached_key(|test| place(&test.name));
        self.choose_proxy(&mut scenario.cluster);
        Ok(scenario)
    }

    /// Sets the release and mode that the command has chosen in a cluster that was read from the texts.
    pub(crate) fn choose_proxy(&self, cluster: &mut Cluster) {
        let (version, mode) = &self.proxy;
        cluster.proxy.version = version.clone().into_owned();
        cluster.proxy.mode = mode.parse().unwrap_or(cluster.proxy.mode);
    }
}

impl Texts<'_> {
    /// The scenario, adapted to programs under test, if there are any.
    ///
    /// # Errors
    ///
    /// As [`Self::scenario`], and if the programs cannot run it.
    pub(crate) fn scenario_for(&self, programs: Option<&Programs>) -> Result<Scenario, Trouble> {
        let scenario = self.scenario()?;
        let fitted = proxy::fit(programs, &scenario).map_err(|why| not_applicable(&why))?;
        Ok(fitted.into_owned())
    }
}

/// The error that programs under test cannot run a scenario.
pub(crate) fn not_applicable(why: &proxy::NotApplicable) -> Trouble {
    Trouble { cause: Cause::Input, message: why.to_string(), help: Some(why.help()), span: None }
}

/// The error that a worker has parsed something else than the command, which is a bug in svclab.
pub(crate) fn misread(errors: &Diagnostics) -> Trouble {
    let message = format!("a worker parsed the scenario differently from the command: {errors}");
    Trouble { cause: Cause::Internal, message, help: None, span: None }
}
