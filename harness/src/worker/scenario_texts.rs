//! A scenario, parsed identically by both sides.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use svclab_rules::cluster::Cluster;
use svclab_rules::ruleset::Rules;
use svclab_rules::{iptables, nftables};

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
    /// The lines of its rules, which may come from another text than that which was printed of them.
    lines: Vec<RuleLines<'a>>,
}

/// The lines of rules in the text that they were read from.
#[derive(Serialize, Deserialize)]
enum RuleLines<'a> {
    Iptables(Cow<'a, iptables::SourceLines>),
    Nftables(Cow<'a, nftables::SourceLines>),
    None,
}

impl<'a> RuleLines<'a> {
    fn of(rules: &'a Rules) -> Self {
        match rules {
            Rules::Iptables(parsed) => Self::Iptables(Cow::Borrowed(&parsed.lines)),
            Rules::Nftables(parsed) => Self::Nftables(Cow::Borrowed(&parsed.lines)),
            Rules::OtherTables(_) => Self::None,
        }
    }

    /// Gives rules these lines; none if they have another layout.
    fn give(&self, rules: &mut Rules) {
        match (rules, self) {
            (Rules::Iptables(parsed), Self::Iptables(lines)) => {
                parsed.lines = if lines.fit(&parsed.rules) { lines.clone().into_owned() } else { Default::default() };
            }
            (Rules::Nftables(parsed), Self::Nftables(lines)) => {
                parsed.lines = if lines.fit(&parsed.rules) { lines.clone().into_owned() } else { Default::default() };
            }
            _ => {}
        }
    }
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
            lines: scenario.rules.iter().map(|own| RuleLines::of(&own.rules)).collect(),
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
        for (own, lines) in scenario.rules.iter_mut().zip(&self.lines) {
            lines.give(Arc::make_mut(&mut own.rules));
        }
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

#[cfg(test)]
mod tests {
    use svclab_rules::cluster::Family;

    use super::*;

    /// Rules that were printed have the lines of the text that they were read from before, unless rules were added since.
    #[test]
    fn rules_have_the_lines_of_the_text_that_was_read() {
        let of = |text: &str| iptables::parse(text, Family::Ipv4).expect("rules");
        let line = |rules: &Rules| match rules {
            Rules::Iptables(parsed) => parsed.lines.line(0, 0, 0),
            _ => None,
        };
        let read = Rules::Iptables(of("\n\n\n*nat\n:A - [0:0]\n\n-A A -j DROP\nCOMMIT\n"));
        let mut printed = Rules::Iptables(of("*nat\n:A - [0:0]\n-A A -j DROP\nCOMMIT\n"));
        let mut more = Rules::Iptables(of("*nat\n:A - [0:0]\n-A A -j RETURN\n-A A -j DROP\nCOMMIT\n"));
        RuleLines::of(&read).give(&mut printed);
        RuleLines::of(&read).give(&mut more);
        assert_eq!((line(&printed), line(&more)), (Some(7), None));
    }
}
