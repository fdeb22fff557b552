//! The namespaces of a place in a lab, and how a front end enters them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{env, fs, thread};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use serde::{Deserialize, Serialize};

use super::hosts::RESOLVER;
use crate::lab::Entrance;

/// The namespaces of a place in a lab, held open, and the files to mount there.
#[derive(Debug)]
pub struct PlaceNamespaces {
    pub(super) place: PlaceInfo,
    mounts: OwnedFd,
    net: OwnedFd,
    pids: OwnedFd,
}

/// What a front end needs to know about a place besides its namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PlaceInfo {
    /// The place: `pod/client`.
    pub(super) name: String,
    /// Names of services, in the lab's mount namespace.
    pub(super) hosts: PathBuf,
}

impl PlaceNamespaces {
    /// Duplicates the descriptors of a place's namespaces.
    ///
    /// # Errors
    ///
    /// If no file descriptor is free.
    pub(super) fn open(name: &str, entrance: &Entrance, pids: &OwnedFd, hosts: PathBuf) -> io::Result<Self> {
        Ok(Self {
            place: PlaceInfo { name: name.to_owned(), hosts },
            mounts: entrance.mounts.try_clone()?,
            net: entrance.net.try_clone()?,
            pids: pids.try_clone()?,
        })
    }

    /// Creates it from descriptors that were passed over a socket, in the order of [`Self::descriptors`].
    ///
    /// # Errors
    ///
    /// If their number is wrong.
    pub(super) fn from_descriptors(place: PlaceInfo, descriptors: Vec<OwnedFd>) -> io::Result<Self> {
        let [mounts, net, pids] = <[OwnedFd; 3]>::try_from(descriptors).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        Ok(Self { place, mounts, net, pids })
    }

    /// The descriptors of its namespaces.
    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [self.mounts.as_fd(), self.net.as_fd(), self.pids.as_fd()]
    }

    /// The place: `pod/client`.
    pub fn name(&self) -> &str {
        &self.place.name
    }

    /// Moves the calling thread into the namespaces; processes that it starts end with the lab. The thread keeps its
    /// working directory, and can no longer start threads. Its process must be in the lab's user namespace.
    ///
    /// # Errors
    ///
    /// If the kernel does not let it enter: the lab may have ended.
    fn enter(&self) -> io::Result<()> {
        let folder = env::current_dir();
        unshare(CloneFlags::CLONE_FS)?;
        setns(self.mounts.as_fd(), CloneFlags::CLONE_NEWNS)?;
        unshare(CloneFlags::CLONE_NEWNS)?;
        self.mount_names()?;
        setns(self.net.as_fd(), CloneFlags::CLONE_NEWNET)?;
        setns(self.pids.as_fd(), CloneFlags::CLONE_NEWPID)?;
        // The lab has its own /run, so a directory below the host's does not exist there.
        folder.and_then(env::set_current_dir).or_else(|_| env::set_current_dir("/"))
    }

    /// Calls a function inside the namespaces, in a separate thread, since a thread cannot leave again.
    ///
    /// # Errors
    ///
    /// As [`Self::enter`], and those of the function.
    pub(super) fn run_inside<T: Send>(&self, function: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let inside = || self.enter().and_then(|()| function());
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("inside".to_owned()).spawn_scoped(scope, inside)?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Mounts the lab's service names over the host's files.
    fn mount_names(&self) -> io::Result<()> {
        for (own, of_host) in [(self.place.hosts.as_path(), "/etc/hosts"), (Path::new(RESOLVER), "/etc/resolv.conf")] {
            // A host without the file has no names to hide; a link into /run is dangling here.
            if let Ok(file) = fs::canonicalize(of_host) {
                mount(Some(own), &file, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
            }
        }
        Ok(())
    }
}

/// Enters a user namespace, unless the process is in it already. The process must have a single thread.
///
/// # Errors
///
/// If the kernel does not let it enter: the namespace belongs to another user.
pub(super) fn join_user_namespace(namespace: OwnedFd) -> io::Result<()> {
    let namespace = File::from(namespace);
    let id = |file: &File| file.metadata().map(|file| (file.dev(), file.ino()));
    if id(&namespace)? != id(&File::open("/proc/self/ns/user")?)? {
        setns(namespace, CloneFlags::CLONE_NEWUSER)?;
    }
    Ok(())
}
