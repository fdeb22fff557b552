//! Whether a program has written the rules of the newest objects.
//!
//! It has when it was sent them, says that it is healthy and has synced since, and its rules are the same in two readings with a pause
//! between them in which none of this changed.

use std::time::{Duration, Instant};

use svclab_rules::ruleset::Rules;

use super::configuration::SYNC_PERIOD;
use super::error::ProxyError;
use super::signals::Signals;
use crate::apiserver::ClientActivity;

/// The pause between two looks at a program.
pub(super) const LOOK: Duration = Duration::from_millis(25);
/// How long nothing may change until a kube-proxy counts as synced: what it was sent, it queues within milliseconds.
const QUIET: Duration = Duration::from_millis(100);
/// How long the rules of a program without signals must not change.
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
    /// Whether programs are looked at from the change on. Otherwise they alone know when they had followed it.
    pub(super) is_watched: bool,
}

/// What is known of a program that is to follow a change.
pub(super) struct Wait {
    change: Change,
    /// The failures of syncs before it.
    failures: Option<u64>,
    /// What it said in the look before.
    earlier: Signals,
    /// How many of its syncs must have ended: a kube-proxy writes the rules, says so, and then deletes connections.
    owed: u64,
    /// Since when nothing has changed, with the signals and rules of then.
    still: Option<(Instant, Option<Signals>, Vec<Rules>)>,
    /// What is missing.
    pub(super) missing: String,
}

/// What a look at a program says.
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
    /// How long that took; `None` if it is not known.
    pub(super) time: Option<Duration>,
    /// What it says; the default for a program without signals.
    pub(super) signals: Signals,
    /// Its rules, by family.
    pub(super) rules: Vec<Rules>,
}

impl Wait {
    /// `earlier` is what the program said when it had followed the change before.
    pub(super) fn new(change: Change, earlier: Signals) -> Self {
        let missing = "it has not connected to the API server".to_owned();
        Self { change, failures: None, earlier, owed: 0, still: None, missing }
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

    /// How long a program took that has been seen as synced since a time. It knows better when it wrote its rules, unless that may
    /// have been a sync of its own accord.
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

    /// The signals of a program that says that it is synced.
    fn ready(
        &mut self,
        client: &ClientActivity,
        signals: Option<std::io::Result<Signals>>,
    ) -> Result<Option<Signals>, Unready> {
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
        match signals {
            None => Ok(None),
            Some(Ok(signals)) => self.says_synced(&signals).map(|()| Some(signals)),
            Some(Err(_)) => Err(Unready::missing("it does not respond at /healthz and /metrics")),
        }
    }

    /// Whether a kube-proxy says that it is synced.
    fn says_synced(&mut self, signals: &Signals) -> Result<(), Unready> {
        self.owed = self.owed.max(signals.owed(&self.earlier));
        self.earlier.clone_from(signals);
        let before = *self.failures.get_or_insert(signals.failures);
        if signals.failures >= before + FAILURES {
            return Err(Unready::Failing(signals.failures - before));
        }
        let change = &self.change;
        let is_waited_for = change.is_of_rules && change.begin.elapsed() < EXPECTED;
        let missing = if !signals.is_current() {
            "its last sync is older than the last change that it has seen"
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

/// Why a program is not synced.
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

    /// What a kube-proxy says whose last sync wrote its rules at a time, after this many syncs have ended.
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
        let change = Change { version: 1, time: 1000.0, begin: Instant::now(), is_of_rules: true, is_watched };
        Wait::new(change, signals(900.0, 5))
    }

    /// A kube-proxy deletes connections when it has written its rules, and that is part of the sync.
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

    /// Where no one looked meanwhile, a kube-proxy knows when it synced, and no other program does.
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
