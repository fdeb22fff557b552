//! Running shells, found by the names of their sockets.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::{fs, io};

use nix::unistd::geteuid;

/// The prefix of the socket names of all shells.
const PREFIX: &str = "svclab";

/// A running shell.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Running {
    /// The name of its lab.
    pub lab: String,
    /// Its process.
    pub pid: u32,
}

/// The running shells of this user.
///
/// # Errors
///
/// If the list of sockets cannot be read.
pub fn running() -> io::Result<Vec<Running>> {
    let start = format!("@{PREFIX}/{}/", user()?);
    let listed = fs::read_to_string("/proc/net/unix")?;
    let names = listed.lines().filter_map(|line| line.split_whitespace().last()?.strip_prefix(&start));
    let mut all: Vec<Running> = names.filter_map(running_of).collect();
    // An accepted connection has the name of its listener.
    all.sort();
    all.dedup();
    Ok(all)
}

fn running_of(name: &str) -> Option<Running> {
    let (lab, pid) = name.rsplit_once('/')?;
    Some(Running { lab: lab.to_owned(), pid: pid.parse().ok()? })
}

/// The address of the socket of a lab's shell.
pub(super) fn address(lab: &str, pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{PREFIX}/{}/{lab}/{pid}", user()?))
}

/// The UID of this process outside of its user namespace (`user_namespaces(7)`).
fn user() -> io::Result<u32> {
    let map = fs::read_to_string("/proc/self/uid_map")?;
    let own = geteuid().as_raw();
    let outside = map.lines().find_map(|line| {
        let numbers: Vec<u32> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [inside, outside, count] = numbers[..] else { return None };
        own.checked_sub(inside).filter(|offset| *offset < count).map(|offset| outside + offset)
    });
    Ok(outside.unwrap_or(own))
}
