//! How other processes enter a lab.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Lab, LabError};
use crate::topology::NetnsId;

/// The namespaces of a place in a lab, held open.
#[derive(Debug)]
pub(crate) struct Entrance {
    /// The lab's mount namespace.
    pub(crate) mounts: OwnedFd,
    /// The place's network namespace.
    pub(crate) net: OwnedFd,
}

impl Lab {
    /// Kills all processes of a place except svclab itself, and returns how many there were.
    pub(crate) fn end_processes(&self, netns: NetnsId) -> usize {
        let id = |file: io::Result<Metadata>| file.ok().map(|file| (file.dev(), file.ino()));
        let own = id(self.namespaces[netns].file().metadata());
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let inside = processes.filter(|pid| id(fs::metadata(format!("/proc/{pid}/ns/net"))) == own);
        let others = inside.map(Pid::from_raw).filter(|pid| *pid != Pid::this());
        others.filter(|pid| kill(*pid, Signal::SIGKILL).is_ok()).count()
    }

    /// Opens the namespaces of a place.
    ///
    /// # Errors
    ///
    /// If no file descriptor is free.
    pub(crate) fn entrance(&self, netns: NetnsId) -> Result<Entrance, LabError> {
        let opened = || -> io::Result<Entrance> {
            let mounts = File::open("/proc/thread-self/ns/mnt")?.into();
            Ok(Entrance { mounts, net: self.namespaces[netns].file().try_clone()?.into() })
        };
        opened().map_err(LabError::socket(&self.topology.namespaces[netns].name, "opening its namespaces"))
    }
}
