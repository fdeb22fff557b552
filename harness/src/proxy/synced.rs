//! Whether a program has written the rules of the newest objects.
//!
//! It has when it was sent them, says that it is healthy and has synced since, and its rules are the same in two readings with a pause
//! between them in which none of this changed.

use std::time::{Duration, Instant};

use svclab_rules::ruleset::Rules;

use super::error::ProxyError;
use super::signals::Signals;
use crate::apiserver::ClientActivity;

/// The pause between two looks at a program.
pub(super) const LOOK: Duration = Duration::from_millis(25);
/// How long nothing may change until a kube-proxy counts as synced: what it was sent, it queues within milliseconds.
const QUIET: Duration = Duration::from_millis(100);
/// The same for a program without signals of its own, whose rules alone show what it does.
const QUIET_WITHOUT_SIGNALS: Duration = Duration::from_secs(1);
/// How long a sync is waited for that a change of rules needs, by the generator. A program that writes none then is taken as it is.
const EXPECTED: Duration = Duration::from_secs(5);
/// How many syncs may fail: one that finds leftovers in its way tries again.
const FAILURES: u64 = 3;

/// What must be sent to a client that writes rules; one of each line.
const WATCHED: [&[&str]; 2] = [&["services"], &["endpointslices", "endpoints"]];

/// A change that programs are to follow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    /// What the API server has numbered it.
    pub(super) version: u64,
    /// When it was made, in seconds since 1970.
    pub(super) time: f64,
    /// When it was made.
    pub(super) begin: Instant,
    /// Whether a sync must follow: not after every change of objects.
    pub(super) is_of_rules: bool,
}

/// What is known of a program that is to follow a change.
pub(super) struct Wait {
    change: Change,
    /// The failures of syncs before it.
    failures: Option<u64>,
    /// Since when nothing has changed, with the signals and rules of then.
    still: Option<(Instant, Option<Signals>, Vec<Rules>)>,
    /// What is missing.
    pub(super) missing: String,
}

/// What a look at a program says.
pub(super) enum Look {
    /// It is not synced yet.
    NotYet,
    /// It keeps failing: so many times.
    Failing(u64),
    /// It is synced, and has been since this time; its rules by family.
    Synced(Duration, Vec<Rules>),
}

impl Wait {
    pub(super) fn new(change: Change) -> Self {
        Self { change, failures: None, still: None, missing: "it has not connected to the API server".to_owned() }
    }

    /// Looks at a program: at what its client was sent, what it says (if it is a kube-proxy), and its rules.
    pub(super) fn look(
        &mut self,
        client: &ClientActivity,
        signals: Option<std::io::Result<Signals>>,
        read: impl FnOnce() -> Result<Vec<Rules>, ProxyError>,
    ) -> Result<Look, ProxyError> {
        let signals = match self.ready(client, signals) {
            Ok(signals) => signals,
            Err(Unready::Missing(missing)) => {
                (self.missing, self.still) = (missing, None);
                return Ok(Look::NotYet);
            }
            Err(Unready::Failing(failures)) => return Ok(Look::Failing(failures)),
        };
        let quiet = if signals.is_some() { QUIET } else { QUIET_WITHOUT_SIGNALS };
        match &self.still {
            Some((since, before, _)) if *before == signals && since.elapsed() < quiet => Ok(Look::NotYet),
            Some((since, before, rules)) if *before == signals => {
                let again = read()?;
                if again == *rules {
                    return Ok(Look::Synced(since.duration_since(self.change.begin), again));
                }
                (self.missing, self.still) =
                    ("its rules still change".to_owned(), Some((Instant::now(), signals, again)));
                Ok(Look::NotYet)
            }
            _ => {
                self.missing = "its syncs do not end".to_owned();
                self.still = Some((Instant::now(), signals, read()?));
                Ok(Look::NotYet)
            }
        }
    }

    /// The signals of a program that says that it is synced.
    fn ready(
        &mut self,
        client: &ClientActivity,
        signals: Option<std::io::Result<Signals>>,
    ) -> Result<Option<Signals>, Unready> {
        let missing = |what: &str| Err(Unready::Missing(what.to_owned()));
        for names in WATCHED {
            let Some(version) =
                names.iter().find_map(|name| client.resources.get(name)).map(|one| one.resource_version)
            else {
                return Err(Unready::Missing(format!("it has not asked the API server for {}", names.join(" or "))));
            };
            if version.is_none_or(|version| version < self.change.version) {
                return Err(Unready::Missing(format!("it does not watch the newest {}", names.join(" or "))));
            }
        }
        let Some(signals) = signals else { return Ok(None) };
        let Ok(signals) = signals else { return missing("it does not answer at /healthz and /metrics") };
        let before = *self.failures.get_or_insert(signals.failures);
        if signals.failures >= before + FAILURES {
            return Err(Unready::Failing(signals.failures - before));
        }
        if !signals.is_current() {
            return missing("its last sync is older than the last change that it has seen");
        }
        let change = &self.change;
        if change.is_of_rules && change.begin.elapsed() < EXPECTED && !signals.has_synced_since(change.time) {
            return missing("it has not synced since the change");
        }
        if !signals.is_healthy {
            return missing("/healthz does not say 200");
        }
        Ok(Some(signals))
    }
}

/// Why a program is not synced.
enum Unready {
    Missing(String),
    Failing(u64),
}
