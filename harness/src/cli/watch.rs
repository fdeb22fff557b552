//! `svclab run --watch`: runs again when a file changes.
//!
//! Changes are detected by content, not by events: inotify only triggers the check. So a file that is replaced, as editors do, deleted or
//! touched needs no special case, and a change during a run is found after it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use svclab::input;

/// Milliseconds without events before files are read: an editor causes several events.
const QUIET: u16 = 40;
/// Maximum number of such waits while events continue.
const PAUSES: usize = 10;
/// Maximum number of watched folders below a path.
const MAX_FOLDERS: usize = 2000;

/// The files of inputs, with their content when they were read.
pub(super) struct Watched {
    inotify: Inotify,
    /// The paths of the command line.
    paths: Vec<PathBuf>,
    /// The scenario files that were found there.
    found: Vec<PathBuf>,
    /// Each file that was ever read, with its text; `None` if it could not be read.
    read: BTreeMap<PathBuf, Option<Arc<str>>>,
}

impl Watched {
    /// Watches the folders of paths.
    pub(super) fn new(paths: &[PathBuf]) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let mut watched = Self { inotify, paths: paths.to_vec(), found: Vec::new(), read: BTreeMap::new() };
        watched.look();
        Ok(watched)
    }

    /// Records the existing files before they are read.
    pub(super) fn look(&mut self) {
        self.found = self.find();
        let files: Vec<PathBuf> = self.found.iter().chain(self.read.keys()).cloned().collect();
        self.watch_folders();
        for file in files {
            let text = text_of(&file);
            self.read.insert(file, text);
        }
    }

    /// Watches the folders that the paths currently lead to, and their parents: a folder or a link may be replaced.
    fn watch_folders(&self) {
        let of_files = self.found.iter().chain(self.read.keys()).chain(&self.paths).map(|file| folder_of(file));
        let below = self.paths.iter().flat_map(|path| folders_below(path));
        let folders: BTreeSet<PathBuf> = of_files.chain(below).collect();
        folders.iter().for_each(|folder| self.watch(folder));
    }

    /// Records the texts that were read.
    pub(super) fn note(&mut self, texts: impl IntoIterator<Item = (PathBuf, Arc<str>)>) {
        for (file, text) in texts {
            // Its folder may not be watched yet: changes in between are found by content.
            if !self.read.contains_key(&file) {
                self.watch(&folder_of(&file));
            }
            self.read.insert(file, Some(text));
        }
    }

    /// Watches a folder. A missing one is looked up again after the next event.
    fn watch(&self, folder: &Path) {
        let changes = AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_ONLYDIR;
        let _ = self.inotify.add_watch(folder, changes);
    }

    /// Waits until the content of a file differs from what was read; returns all such files, at least one.
    pub(super) fn changed(&self) -> io::Result<Vec<PathBuf>> {
        loop {
            let changed = self.compare();
            if !changed.is_empty() {
                return Ok(changed);
            }
            self.wait(PollTimeout::NONE)?;
            for _ in 0..PAUSES {
                if !self.wait(PollTimeout::from(QUIET))? {
                    break;
                }
            }
            self.watch_folders();
        }
    }

    /// Returns the number of watched files.
    pub(super) fn len(&self) -> usize {
        self.read.len()
    }

    fn compare(&self) -> Vec<PathBuf> {
        let found = self.find();
        let appeared = found.iter().filter(|file| !self.read.contains_key(*file)).cloned();
        let changed = self.read.iter().filter(|(file, text)| text_of(file) != **text).map(|(file, _)| file.clone());
        appeared.chain(changed).collect()
    }

    /// Waits for events and consumes them; returns whether there were any.
    fn wait(&self, timeout: PollTimeout) -> io::Result<bool> {
        match poll(&mut [PollFd::new(self.inotify.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(0) => return Ok(false),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        match self.inotify.read_events() {
            Ok(_) | Err(Errno::EAGAIN) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the existing scenario files in the paths.
    fn find(&self) -> Vec<PathBuf> {
        let of = |path: &PathBuf| match input::find(std::slice::from_ref(path)) {
            Ok(found) => found.files,
            Err(_) => vec![path.clone()],
        };
        self.paths.iter().flat_map(of).collect()
    }
}

fn text_of(file: &Path) -> Option<Arc<str>> {
    input::read_file(file).ok().map(Into::into)
}

/// Returns the folder of a file.
fn folder_of(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or_else(|| PathBuf::from("."), Path::to_owned)
}

/// Returns a folder and those below it, without hidden ones and links.
fn folders_below(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return Vec::new();
    }
    let mut all = vec![path.to_owned()];
    let mut next = 0;
    while let Some(folder) = all.get(next).cloned().filter(|_| all.len() < MAX_FOLDERS) {
        next += 1;
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        let is_hidden = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with('.');
        all.extend(entries.filter(|entry| is_folder(entry) && !is_hidden(entry)).map(|entry| entry.path()));
    }
    all
}
