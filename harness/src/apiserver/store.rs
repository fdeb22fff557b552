//! The store of objects and their changes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use k8s_openapi::jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::object::{Content, Key, Stored};
use super::resource::{Index, RESOURCES};

/// The objects of one resource.
pub(super) type Objects = BTreeMap<Key, Arc<Stored>>;

/// A change of an object.
#[derive(Debug)]
pub(super) struct Change {
    /// Its resourceVersion.
    pub(super) version: u64,
    pub(super) index: Index,
    pub(super) key: Key,
    pub(super) before: Option<Arc<Stored>>,
    pub(super) after: Option<Arc<Stored>>,
}

/// All objects, behind a lock.
#[derive(Debug)]
pub(super) struct Store {
    inner: Mutex<Inner>,
    newest: watch::Sender<u64>,
    history: usize,
}

#[derive(Debug, Default)]
struct Inner {
    version: u64,
    /// The version before the oldest change in `changes`.
    compacted: u64,
    objects: [Objects; RESOURCES.len()],
    changes: VecDeque<Arc<Change>>,
}

/// The reason why the state at a version is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    /// It is compacted; this is the oldest known version.
    Compacted(u64),
    /// It is in the future; this is the newest version.
    Future(u64),
}

impl Store {
    /// Creates an empty store that keeps this many changes.
    pub(super) fn new(history: usize) -> Self {
        Self { inner: Mutex::default(), newest: watch::Sender::new(0), history }
    }

    /// Subscribes to the newest resourceVersion.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Stores the first objects. Their versions are compacted immediately, so a watch that starts at one of them gets 410 and lists again.
    pub(super) fn fill(&self, contents: Vec<Content>) {
        self.change(|inner| {
            inner.replace(contents);
            inner.forget(0);
        });
    }

    /// Replaces all objects of the resources that clients cannot change, and returns the version of the new state. The changes of one call
    /// are atomic.
    pub(super) fn replace(&self, contents: Vec<Content>) -> u64 {
        self.change(|inner| {
            let before = inner.version;
            inner.replace(contents);
            let changed = usize::try_from(inner.version - before).unwrap_or(usize::MAX);
            inner.forget(self.history.max(changed));
            inner.version
        })
    }

    /// Adds an object of a client, unless one with its name exists; beyond `limit`, the oldest one is deleted.
    pub(super) fn create(&self, content: Content, limit: usize) -> Option<Arc<Stored>> {
        let (index, key) = (content.index, content.key.clone());
        self.change(|inner| {
            if inner.objects[index].contains_key(&key) {
                return None;
            }
            if inner.objects[index].len() >= limit {
                let oldest = inner.objects[index].values().min_by_key(|stored| stored.version).cloned();
                oldest.into_iter().for_each(|oldest| inner.remove(index, &oldest.content.key));
            }
            inner.put(content);
            inner.forget(self.history);
            inner.objects[index].get(&key).cloned()
        })
    }

    /// Replaces an existing object of a client.
    pub(super) fn update(&self, content: Content) -> Option<Arc<Stored>> {
        let (index, key) = (content.index, content.key.clone());
        self.change(|inner| {
            inner.objects[index].get(&key)?;
            inner.put(content);
            inner.forget(self.history);
            inner.objects[index].get(&key).cloned()
        })
    }

    /// Returns the object of a key.
    pub(super) fn get(&self, index: Index, key: &Key) -> Option<Arc<Stored>> {
        self.lock().objects[index].get(key).cloned()
    }

    /// Returns the newest version.
    pub(super) fn version(&self) -> u64 {
        self.lock().version
    }

    /// Returns the newest version, and a resource's objects at that version in a namespace (all for an empty one).
    pub(super) fn objects(&self, index: Index, namespace: &str) -> (u64, Vec<Arc<Stored>>) {
        let inner = self.lock();
        (inner.version, objects_in(&inner.objects[index], namespace))
    }

    /// The same at an earlier version.
    pub(super) fn objects_at(&self, index: Index, namespace: &str, version: u64) -> Result<Vec<Arc<Stored>>, Unknown> {
        let inner = self.lock();
        inner.knows(version)?;
        let mut objects = inner.objects[index].clone();
        for change in inner.since(version).rev().filter(|change| change.index == index) {
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), Arc::clone(before)),
                None => objects.remove(&change.key),
            };
        }
        Ok(objects_in(&objects, namespace))
    }

    /// Returns the newest version, and the changes of a resource after a version.
    pub(super) fn changes(&self, index: Index, after: u64) -> Result<(u64, Vec<Arc<Change>>), Unknown> {
        let inner = self.lock();
        match inner.knows(after) {
            Err(Unknown::Future(_)) => return Ok((inner.version, Vec::new())),
            known => known?,
        }
        Ok((inner.version, inner.since(after).filter(|change| change.index == index).cloned().collect()))
    }

    /// Changes the objects, and reports the newest version to all watches.
    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.lock();
        let result = change(&mut inner);
        // Under the lock, so that versions are reported in order.
        self.newest.send_replace(inner.version);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn objects_in(objects: &Objects, namespace: &str) -> Vec<Arc<Stored>> {
    let inside = |key: &Key| namespace.is_empty() || key.namespace == namespace;
    objects.iter().filter(|(key, _)| inside(key)).map(|(_, stored)| Arc::clone(stored)).collect()
}

impl Inner {
    fn replace(&mut self, contents: Vec<Content>) {
        let mut wanted: [BTreeMap<Key, Content>; RESOURCES.len()] = Default::default();
        for content in contents {
            wanted[content.index].insert(content.key.clone(), content);
        }
        for (index, wanted) in wanted.into_iter().enumerate().filter(|(index, _)| !RESOURCES[*index].writable) {
            let is_gone = |key: &Key, stored: &Stored| {
                wanted.get(key).is_none_or(|content| content.uid.as_ref().is_some_and(|uid| *uid != stored.uid))
            };
            let gone = self.objects[index].iter().filter(|(key, stored)| is_gone(key, stored));
            let gone: Vec<Key> = gone.map(|(key, _)| key.clone()).collect();
            gone.iter().for_each(|key| self.remove(index, key));
            wanted.into_values().for_each(|content| self.put(content));
        }
    }

    /// Stores an object, unless it is unchanged.
    fn put(&mut self, content: Content) {
        let (index, key) = (content.index, content.key.clone());
        let before = self.objects[index].get(&key).cloned();
        if before.as_ref().is_some_and(|before| before.content.equals(&content)) {
            return;
        }
        self.version += 1;
        let stored = match &before {
            Some(before) => changed(before, content, self.version),
            None => created(content, self.version),
        };
        let after = Arc::new(stored);
        self.objects[index].insert(key.clone(), Arc::clone(&after));
        self.record(Change { version: self.version, index, key, before, after: Some(after) });
    }

    fn remove(&mut self, index: Index, key: &Key) {
        let before = self.objects[index].remove(key);
        self.version += 1;
        self.record(Change { version: self.version, index, key: key.clone(), before, after: None });
    }

    fn record(&mut self, change: Change) {
        self.changes.push_back(Arc::new(change));
    }

    fn forget(&mut self, history: usize) {
        let surplus = self.changes.len().saturating_sub(history);
        if let Some(last) = self.changes.drain(..surplus).next_back() {
            self.compacted = last.version;
        }
    }

    fn knows(&self, version: u64) -> Result<(), Unknown> {
        if version < self.compacted {
            Err(Unknown::Compacted(self.compacted))
        } else if version > self.version {
            Err(Unknown::Future(self.version))
        } else {
            Ok(())
        }
    }

    /// Returns the changes after a version.
    fn since(&self, version: u64) -> impl DoubleEndedIterator<Item = &Arc<Change>> {
        let first = self.changes.partition_point(|change| change.version <= version);
        self.changes.range(first..)
    }
}

/// Returns an object created at a version.
pub(super) fn created(content: Content, version: u64) -> Stored {
    let uid = content.uid.clone().unwrap_or_else(|| uid(content.index, &content.key, version));
    let created = content.created.clone().unwrap_or_else(now);
    Stored { version, generation: 1, uid, created, content }
}

/// Returns an object that replaces another one at a version.
pub(super) fn changed(before: &Stored, content: Content, version: u64) -> Stored {
    let (uid, created) = (before.uid.clone(), before.created.clone());
    Stored { version, generation: before.generation + 1, uid, created, content }
}

/// Returns a UUID that depends on the object and its creation version.
fn uid(index: Index, key: &Key, version: u64) -> String {
    let text = format!("{index}/{}/{}/{version}", key.namespace, key.name);
    let mut bytes = Sha256::digest(text.as_bytes())[..16].to_vec();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = HEXLOWER.encode(&bytes);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_secs()).unwrap_or_default();
    let time = Timestamp::from_second(i64::try_from(seconds).unwrap_or_default());
    time.map(|time| time.to_string()).unwrap_or_default()
}
