//! Whether a program has written the rules for the newest objects.
//!
//! It has if the API server has sent them, the program reports that it is healthy and has synced since, and its rules are the same in two
//! readings, with a pause in between during which none of this changed.

use std::time::{Duration, Instant};

use svclab_rules::ruleset::Rules;

use super::configuration::SYNC_PERIOD;
use super::error::ProxyError;
use super::signals::Signals;
use crate::apiserver::ClientActivity;

/// The pause between two checks of a program.
pub(super) const LOOK: Duration = Duration::from_millis(25);
/// How long nothing may change until a kube-proxy counts as synced: it queues what it was sent within milliseconds.
const QUIET: Duration = Duration::from_millis(100);
/// How long the rules of a program without signals must stay unchanged.
const QUIET_WITHOUT_SIGNALS: Duration = Duration::from_secs(1);
/// How long to wait for a sync if the generated rules change. A program that writes nothing by then counts as synced.
const EXPECTED: Duration = Duration::from_secs(5);
/// The number of syncs that may fail: kube-proxy retries, for example after a conflict with leftover rules.
const FAILURES: u64 = 3;

/// The resources that a client must be sent before it can write rules; one of each group.
const WATCHED: [&[&str]; 2] = [&["services"], &["endpointslices", "endpoints"]];

/// A change that programs must follow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    /// Its number at the API server.
    pub(super) version: u64,
    /// When it was made, in seconds since 1970.
    pub(super) time: f64,
    /// When it was made.
    pub(super) begin: Instant,
    /// Whether it requires a sync: not every change of objects does.
    pub(super) changes_rules: bool,
    /// Whether programs are watched from the change on. Otherwise only they themselves know when they followed it.
    pub(super) is_watched: bool,
}

/// The state of waiting for a program to follow a change.
pub(super) struct Wait {
    change: Change,
    /// The number of failed syncs before it.
    failures: Option<u64>,
    /// Its signals at the previous check.
    earlier: Signals,
    /// The number of syncs that must have finished: a kube-proxy writes the rules, reports that, and then deletes connections.
    owed: u64,
    /// Since when nothing has changed, with the signals and rules at that time.
    still: Option<(Instant, Option<Signals>, Vec<Rules>)>,
    /// What is missing.
    pub(super) missing: String,
}

/// The result of a check of a program.
pub(super) enum Look {
    /// It is not synced yet.
    NotYet,
    /// It keeps failing: this many times.
    Failing(u64),
    /// It is synced.
    Synced(Synced),
}

/// A program that has followed a change.
pub(super) struct Synced {
    /// How long it took; `None` if unknown.
    pub(super) time: Option<Duration>,
    /// Its signals; the default for a program without any.
    pub(super) signals: Signals,
    /// Its rules, by family.
    pub(super) rules: Vec<Rules>,
}

impl Wait {
    /// Starts waiting; `earlier` are the program's signals after it had followed the previous change.
    pub(super) fn new(change: Change, earlier: Signals) -> Self {
        let missing = "it has not connected to the API server".to_owned();
        Self { change, failures: None, earlier, owed: 0, still: None, missing }
    }

    /// Checks a program: what its client was sent, its signals (if it is a kube-proxy), and its rules.
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
                    let time = self.time(*since, signals.as_ref());
                    return Ok(Look::Synced(Synced { time, signals: signals.unwrap_or_default(), rules: again }));
                }
                (self.missing, self.still) =
                    ("its rules are still changing".to_owned(), Some((Instant::now(), signals, again)));
                Ok(Look::NotYet)
            }
            _ => {
                self.missing = "its syncs do not finish".to_owned();
                self.still = Some((Instant::now(), signals, read()?));
                Ok(Look::NotYet)
            }
        }
    }

    /// How long a program took that was first seen as synced at a time. Its own time stamp is more precise, unless it may come from a
    /// periodic sync.
    fn time(&self, since: Instant, signals: Option<&Signals>) -> Option<Duration> {
        let Change { time, begin, is_watched, .. } = self.change;
        let said = signals.and_then(|signals| Duration::try_from_secs_f64(signals.synced_since(time)? - time).ok());
        let seen = since.duration_since(begin);
        if is_watched {
            Some(said.map_or(seen, |said| said.min(seen)))
        } else {
            said.filter(|said| *said < SYNC_PERIOD)
        }
    }

    /// The signals of a program that reports that it is synced.
    fn ready(
        &mut self,
        client: &ClientActivity,
        signals: Option<std::io::Result<Signals>>,
    ) -> Result<Option<Signals>, Unready> {
        for names in WATCHED {
            let Some(version) =
                names.iter().find_map(|name| client.resources.get(name)).map(|one| one.resource_version)
            else {
                return Err(Unready::Missing(format!(
                    "it has not requested {} from the API server",
                    names.join(" or ")
                )));
            };
            if version.is_none_or(|version| version < self.change.version) {
                return Err(Unready::Missing(format!("it does not watch the newest {}", names.join(" or "))));
            }
        }
        match signals {
            None => Ok(None),
            Some(Ok(signals)) => self.says_synced(&signals).map(|()| Some(signals)),
            Some(Err(_)) => Err(Unready::missing("it does not respond at /healthz and /metrics")),
        }
    }

    /// Checks whether a kube-proxy reports that it is synced.
    fn says_synced(&mut self, signals: &Signals) -> Result<(), Unready> {
        self.owed = self.owed.max(signals.owed(&self.earlier));
        self.earlier.clone_from(signals);
        let before = *self.failures.get_or_insert(signals.failures);
        if signals.failures >= before + FAILURES {
            return Err(Unready::Failing(signals.failures - before));
        }
        let change = &self.change;
        let is_waited_for = change.changes_rules && change.begin.elapsed() < EXPECTED;
        let missing = if !signals.is_current() {
            "its last sync is older than the last change that it queued"
        } else if is_waited_for && signals.synced_since(change.time).is_none() {
            "it has not synced since the change"
        } else if !signals.have_ended(self.owed) {
            "its last sync has not finished"
        } else if !signals.is_healthy {
            "/healthz is not 200"
        } else {
            return Ok(());
        };
        Err(Unready::missing(missing))
    }
}

/// The reason why a program is not synced.
enum Unready {
    Missing(String),
    Failing(u64),
}

impl Unready {
    fn missing(what: &str) -> Self {
        Self::Missing(what.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signals of a kube-proxy whose last sync wrote its rules at a time, after this number of syncs has finished.
    fn signals(synced: f64, ended: u64) -> Signals {
        let mut said = Signals::read(&format!(
            "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds 0\n\
             kubeproxy_sync_proxy_rules_last_timestamp_seconds {synced}\n\
             kubeproxy_sync_proxy_rules_duration_seconds_count {ended}\n"
        ));
        said.is_healthy = true;
        said
    }

    fn wait(is_watched: bool) -> Wait {
        let change = Change { version: 1, time: 1000.0, begin: Instant::now(), changes_rules: true, is_watched };
        Wait::new(change, signals(900.0, 5))
    }

    /// A kube-proxy deletes connections after it has written its rules, and that is part of the sync.
    #[test]
    fn a_sync_has_ended_when_connections_are_deleted() {
        let mut wait = wait(true);
        let mut ready = |signals: Signals| match wait.says_synced(&signals) {
            Ok(()) => String::new(),
            Err(Unready::Missing(missing)) => missing,
            Err(Unready::Failing(_)) => unreachable!("nothing fails"),
        };
        assert_eq!(ready(signals(900.0, 5)), "it has not synced since the change");
        assert_eq!(ready(signals(1000.1, 5)), "its last sync has not finished");
        assert_eq!(ready(signals(1000.1, 6)), "");
        assert_eq!(ready(signals(1000.2, 6)), "its last sync has not finished");
        assert_eq!(ready(signals(1000.2, 6)), "its last sync has not finished");
        assert_eq!(ready(signals(1000.2, 7)), "");
    }

    /// If a program was not watched, only a kube-proxy reports when it synced.
    #[test]
    fn the_time_of_a_sync_is_what_a_kube_proxy_says() {
        let [watched, unwatched] = [wait(true), wait(false)];
        let seen = unwatched.change.begin + Duration::from_secs(8);
        let said = signals(1000.25, 6);
        for wait in [&watched, &unwatched] {
            assert_eq!(wait.time(seen, Some(&said)), Some(Duration::from_millis(250)));
        }
        assert_eq!(watched.time(seen, None), Some(seen.duration_since(watched.change.begin)));
        assert_eq!(unwatched.time(seen, None), None);
        assert_eq!(unwatched.time(seen, Some(&signals(900.0, 5))), None, "it has not synced since");
        assert_eq!(unwatched.time(seen, Some(&signals(1031.0, 7))), None, "that may be another sync");
    }
}
