//! Watches: streams of events.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};

use super::activity::{Activity, Watching};
use super::api::{Api, WATCHES};
use super::body::{self, Body, PART};
use super::object::Stored;
use super::query::Query;
use super::resource::Endpoint;
use super::status::Rejection;
use super::store::{Change, Unknown};

/// The duration of a watch without `timeoutSeconds` (the API server's `--min-request-timeout`).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);

/// The maximum time between bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// Creates the response to a watch request.
pub(super) fn watch(
    api: &Arc<Api>,
    end: Endpoint,
    namespace: String,
    query: Query,
    activity: &Arc<Activity>,
) -> Result<Body, Rejection> {
    let permit = Arc::clone(&api.watches).try_acquire_owned().map_err(|_| Rejection::too_many_watches(WATCHES))?;
    let newest = api.store.subscribe();
    // A streaming list starts at the newest state, which is at least as new as any that can be requested.
    let asked = query.version.filter(|version| *version > 0);
    let streams_list = query.initial_events == Some(true);
    let (position, initial) = match (asked, query.initial_events) {
        (Some(version), None | Some(false)) => (version, Vec::new()),
        (None, Some(false)) => (api.store.version(), Vec::new()),
        (_, None | Some(true)) => api.store.objects(end.index, &namespace),
    };
    if let Some(version) = asked.filter(|version| *version > position) {
        return Err(Rejection::too_large_version(version, position));
    }
    let timeout = query.timeout_seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let started = Instant::now();
    let mut events = Events {
        api: Arc::clone(api),
        end,
        initial: Vec::new().into_iter(),
        // A streaming list ends with an annotated bookmark.
        state: if streams_list && query.bookmarks { State::Listing } else { State::Following },
        namespace,
        query,
        newest,
        position,
        marked: position,
        ends: started.checked_add(timeout).unwrap_or(started + DEFAULT_TIMEOUT),
        next_bookmark: started + BOOKMARKS,
        watching: activity.watching(end.index),
        _permit: permit,
    };
    let selected = initial.into_iter().filter(|stored| events.selects(stored)).collect::<Vec<_>>();
    events.initial = selected.into_iter();
    Ok(body::streamed(stream::unfold(events, |mut events| async move { Some((events.next().await?, events)) })))
}

enum State {
    /// The initial events are still being sent; a bookmark follows.
    Listing,
    Following,
    Ended,
}

struct Events {
    api: Arc<Api>,
    end: Endpoint,
    namespace: String,
    query: Query,
    newest: watch::Receiver<u64>,
    initial: std::vec::IntoIter<Arc<Stored>>,
    state: State,
    /// The version up to which everything was sent.
    position: u64,
    /// The version of the last bookmark.
    marked: u64,
    ends: Instant,
    next_bookmark: Instant,
    watching: Watching,
    _permit: OwnedSemaphorePermit,
}

impl Events {
    /// Returns the next events, as soon as there are any.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let mut part = Vec::new();
            self.write_initial(&mut part);
            if !part.is_empty() {
                return Some(part);
            }
            match self.state {
                State::Ended => return None,
                State::Listing => {
                    self.state = State::Following;
                    self.write_bookmark(json!({"k8s.io/initial-events-end": "true"}), &mut part);
                    return Some(part);
                }
                State::Following => {}
            }
            // Before reading the changes, so that no later one is missed.
            self.newest.mark_unchanged();
            self.write_changes(&mut part);
            if !part.is_empty() {
                return Some(part);
            }
            self.watching.is_at(self.position);
            if let Some(part) = self.pause().await {
                return Some(part);
            }
        }
    }

    /// Waits for a change, or until a bookmark is due.
    async fn pause(&mut self) -> Option<Vec<u8>> {
        tokio::select! {
            _ = self.newest.changed() => return None,
            () = sleep_until(self.ends) => self.state = State::Ended,
            () = sleep_until(self.next_bookmark) => self.next_bookmark = Instant::now() + BOOKMARKS,
        }
        let mut part = Vec::new();
        if self.query.bookmarks && self.position > self.marked {
            self.write_bookmark(Value::Null, &mut part);
        }
        Some(part).filter(|part| !part.is_empty())
    }

    fn write_initial(&mut self, part: &mut Vec<u8>) {
        while part.len() < PART {
            let Some(stored) = self.initial.next() else { return };
            self.write_event("ADDED", &stored, stored.version, part);
        }
    }

    fn write_changes(&mut self, part: &mut Vec<u8>) {
        let (newest, changes) = match self.api.store.changes(self.end.index, self.position) {
            Ok(found) => found,
            Err(Unknown::Compacted(oldest)) => {
                let message = format!("too old resource version: {} ({oldest})", self.position);
                write_error(Rejection::expired(message).status(), part);
                self.state = State::Ended;
                return;
            }
            Err(Unknown::Future(_)) => return,
        };
        for change in changes {
            self.write_change(&change, part);
            self.position = change.version;
            if part.len() >= PART {
                return;
            }
        }
        self.position = self.position.max(newest);
    }

    /// Writes the event of a change for clients that see only selected objects.
    fn write_change(&self, change: &Change, part: &mut Vec<u8>) {
        let seen = |stored: &Option<Arc<Stored>>| stored.as_ref().filter(|stored| self.selects(stored)).cloned();
        match (seen(&change.before), seen(&change.after)) {
            (None, Some(after)) => self.write_event("ADDED", &after, change.version, part),
            (Some(_), Some(after)) => self.write_event("MODIFIED", &after, change.version, part),
            (Some(before), None) => self.write_event("DELETED", &before, change.version, part),
            (None, None) => {}
        }
    }

    fn selects(&self, stored: &Stored) -> bool {
        let content = &stored.content;
        let inside = self.namespace.is_empty() || content.key.namespace == self.namespace;
        inside && self.query.selector.selects(&content.labels, &content.fields)
    }

    fn write_event(&self, kind: &str, stored: &Stored, version: u64, part: &mut Vec<u8>) {
        part.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
        stored.write(self.end.served, version, part);
        part.extend_from_slice(b"}\n");
    }

    fn write_bookmark(&mut self, annotations: Value, part: &mut Vec<u8>) {
        self.marked = self.position;
        let mut metadata = json!({"resourceVersion": self.position.to_string(), "creationTimestamp": null});
        if !annotations.is_null() {
            metadata["annotations"] = annotations;
        }
        let (kind, api_version) = (self.end.resource().kind, self.end.served.api_version());
        let object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        part.extend_from_slice(format!("{}\n", json!({"type": "BOOKMARK", "object": object})).as_bytes());
    }
}

fn write_error(status: &Status, part: &mut Vec<u8>) {
    part.extend_from_slice(format!("{}\n", json!({"type": "ERROR", "object": status})).as_bytes());
}
