//! Requests of clients, by listener.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::resource::{Index, RESOURCES};

/// The requests of one listener's clients so far, by the resource's name in paths (`services`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ClientActivity {
    /// The resources that were listed or watched.
    pub(crate) resources: BTreeMap<&'static str, ResourceActivity>,
}

impl ClientActivity {
    /// Removes the resources that were not watched again since an earlier time: their earlier watchers may be gone, which a server notices
    /// only with a delay.
    pub(crate) fn since(mut self, earlier: &Self) -> Self {
        self.resources.retain(|name, now| earlier.resources.get(name).is_none_or(|then| now.watches > then.watches));
        self
    }
}

/// The requests for one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ResourceActivity {
    /// The number of lists.
    pub(crate) lists: u64,
    /// The number of watches.
    pub(crate) watches: u64,
    /// The number of watches that are open.
    pub(crate) open: usize,
    /// The resourceVersion up to which all open watches have been sent their events; `None` if none is open.
    pub(crate) resource_version: Option<u64>,
}

/// A recorder of requests from one listener's clients.
#[derive(Debug, Default)]
pub(super) struct Activity(Mutex<Records>);

#[derive(Debug, Default)]
struct Records {
    resources: [Record; RESOURCES.len()],
    next: u64,
}

#[derive(Debug, Default)]
struct Record {
    lists: u64,
    watches: u64,
    /// The resourceVersion of each open watch.
    open: BTreeMap<u64, u64>,
}

impl Activity {
    /// Records a list.
    pub(super) fn listed(&self, index: Index) {
        self.lock().resources[index].lists += 1;
    }

    /// Records that a watch is open, until the value is dropped.
    pub(super) fn watching(self: &Arc<Self>, index: Index) -> Watching {
        let mut records = self.lock();
        records.next += 1;
        let id = records.next;
        let record = &mut records.resources[index];
        record.watches += 1;
        record.open.insert(id, 0);
        Watching { activity: Arc::clone(self), index, id }
    }

    /// Returns what was recorded so far.
    pub(super) fn so_far(&self) -> ClientActivity {
        let records = self.lock();
        let used = records.resources.iter().zip(&RESOURCES).filter(|(record, _)| record.lists + record.watches > 0);
        let resources = used.map(|(record, resource)| {
            let Record { lists, watches, ref open } = *record;
            let resource_version = open.values().min().copied();
            (resource.plural, ResourceActivity { lists, watches, open: open.len(), resource_version })
        });
        ClientActivity { resources: resources.collect() }
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open watch.
#[derive(Debug)]
pub(super) struct Watching {
    activity: Arc<Activity>,
    index: Index,
    id: u64,
}

impl Watching {
    /// Records that everything up to a version was sent.
    pub(super) fn is_at(&self, version: u64) {
        self.activity.lock().resources[self.index].open.insert(self.id, version);
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.activity.lock().resources[self.index].open.remove(&self.id);
    }
}
