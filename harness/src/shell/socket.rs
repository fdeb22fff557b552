//! Front ends in other processes: the shell listens on a socket.
//!
//! The socket is abstract (`unix(7)`), so nothing of it is in a file system, and it ends with its process, however that ends. Its name says
//! whose it is: `svclab/UID/LAB/PID`. Only processes of the same user are served, whose requests and results are those of [`Access`]; descriptors of
//! namespaces are passed over it, with which a client runs programs by itself, on its own terminal.

use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;

use nix::cmsg_space;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, getsockopt, recvmsg, sendmsg, sockopt};
use nix::unistd::{Uid, close, geteuid};
use serde::{Deserialize, Serialize};

use super::door::{Door, Inside};
use super::open::Shell;
use super::reply::{Access, Completion, Errand, Printed, Reply, View};
use crate::worker::{read_frame, write_frame};

/// What the names of all shells' sockets start with.
const PREFIX: &str = "svclab";
/// The most descriptors that are passed at once: those of a door.
const DESCRIPTORS: usize = 3;

/// What a client asks.
#[derive(Serialize, Deserialize)]
enum Request {
    /// The user namespace of the lab, as a descriptor.
    UserNamespace,
    CarryOut(Vec<String>, View),
    Complete(String),
    Interrupt,
}

/// What it gets. Descriptors follow where there are some.
#[derive(Serialize, Deserialize)]
enum Answer {
    Printed(Printed),
    Gone(Printed),
    Errand(Inside, Errand),
    Exit,
    Completion(Completion),
    Nothing,
}

/// The socket of a shell.
pub struct Socket(UnixListener);

impl Socket {
    /// Listens for a lab.
    ///
    /// # Errors
    ///
    /// If the kernel provides no socket.
    pub fn bind(lab: &str) -> io::Result<Self> {
        let name = format!("{PREFIX}/{}/{lab}/{}", user()?, std::process::id());
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?).map(Self)
    }

    /// Serves clients, each in a thread of its own, as long as the process lives.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn serve(self, shell: &Shell) -> io::Result<()> {
        let shell = shell.clone();
        let accept = move || {
            for stream in self.0.incoming().flatten().filter(is_of_same_user) {
                let shell = shell.clone();
                // A client that cannot be served sees that its connection ends.
                let _ = thread::Builder::new().name("client".to_owned()).spawn(move || converse(&shell, stream));
            }
        };
        thread::Builder::new().name("socket".to_owned()).spawn(accept).map(drop)
    }
}

/// Whether the other end of a connection is a process of the same user, as this process sees it.
fn is_of_same_user(stream: &UnixStream) -> bool {
    getsockopt(stream, sockopt::PeerCredentials).is_ok_and(|peer| Uid::from_raw(peer.uid()) == geteuid())
}

/// Answers a client's requests until it is gone.
fn converse(shell: &Shell, mut stream: UnixStream) -> io::Result<()> {
    loop {
        let (answer, door) = match read_frame(&mut stream)? {
            Request::CarryOut(words, view) => match shell.carry_out(&words, &view) {
                Reply::Printed(printed) => (Answer::Printed(printed), None),
                Reply::Gone(printed) => (Answer::Gone(printed), None),
                Reply::Errand(door, errand) => (Answer::Errand(door.inside.clone(), errand), Some(door)),
                Reply::Exit => (Answer::Exit, None),
            },
            Request::Complete(line) => (Answer::Completion(shell.complete(&line)), None),
            Request::Interrupt => {
                shell.interrupt();
                (Answer::Nothing, None)
            }
            Request::UserNamespace => {
                write_frame(&mut stream, &Answer::Nothing)?;
                pass(&stream, &[File::open("/proc/self/ns/user")?.as_raw_fd()])?;
                continue;
            }
        };
        write_frame(&mut stream, &answer)?;
        if let Some(door) = door {
            pass(&stream, &door.descriptors().map(|descriptor| descriptor.as_raw_fd()))?;
        }
    }
}

/// Passes descriptors.
fn pass(stream: &UnixStream, descriptors: &[RawFd]) -> io::Result<()> {
    let rights = [ControlMessage::ScmRights(descriptors)];
    sendmsg::<()>(stream.as_raw_fd(), &[IoSlice::new(b"d")], &rights, MsgFlags::empty(), None)?;
    Ok(())
}

/// Takes descriptors that were passed.
fn take(stream: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut buffer = [0];
    let mut slices = [IoSliceMut::new(&mut buffer)];
    let mut control = cmsg_space!([RawFd; DESCRIPTORS]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(stream.as_raw_fd(), &mut slices, Some(&mut control), flags)?;
    let mut taken = Vec::new();
    for message in message.cmsgs()? {
        let ControlMessageOwned::ScmRights(descriptors) = message else { continue };
        for descriptor in descriptors {
            // One that owns itself, in the place of a number.
            let own = File::open(format!("/proc/self/fd/{descriptor}"));
            let _ = close(descriptor);
            taken.push(own?.into());
        }
    }
    Ok(taken)
}

/// The number of this process's user outside of its user namespace (`user_namespaces(7)`).
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

/// A shell that is running.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Running {
    /// The name of its lab.
    pub lab: String,
    /// Its process.
    pub pid: u32,
}

impl Running {
    /// What a line may start with there: commands and places.
    pub fn first_words(&self) -> Vec<String> {
        Remote { of: self.clone() }.complete("").words
    }
}

/// The shells of this user that are running.
///
/// # Errors
///
/// If the kernel does not list sockets.
pub fn running() -> io::Result<Vec<Running>> {
    let start = format!("@{PREFIX}/{}/", user()?);
    let listed = fs::read_to_string("/proc/net/unix")?;
    let names = listed.lines().filter_map(|line| line.split_whitespace().last()?.strip_prefix(&start));
    let mut all: Vec<Running> = names.filter_map(running_of).collect();
    // A connection that was accepted has the name of the listener.
    all.sort();
    all.dedup();
    Ok(all)
}

fn running_of(name: &str) -> Option<Running> {
    let (lab, pid) = name.rsplit_once('/')?;
    Some(Running { lab: lab.to_owned(), pid: pid.parse().ok()? })
}

/// A connection to the shell of another process.
pub struct Remote {
    of: Running,
}

impl Remote {
    /// Connects to a shell, and enters its lab's user namespace, where that is another one: the process must have a single thread.
    ///
    /// # Errors
    ///
    /// If it is gone, or another user's.
    pub fn connect(of: &Running) -> io::Result<Self> {
        let remote = Self { of: of.clone() };
        let mut stream = remote.stream()?;
        write_frame(&mut stream, &Request::UserNamespace)?;
        read_frame::<Answer>(&mut stream)?;
        let namespace = take(&stream)?.into_iter().next().ok_or(io::ErrorKind::UnexpectedEof)?;
        super::door::join_user_namespace(namespace)?;
        Ok(remote)
    }

    fn stream(&self) -> io::Result<UnixStream> {
        let Running { lab, pid } = &self.of;
        let address = SocketAddr::from_abstract_name(format!("{PREFIX}/{}/{lab}/{pid}", user()?))?;
        let stream = UnixStream::connect_addr(&address)?;
        if is_of_same_user(&stream) { Ok(stream) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }

    fn ask(&self, request: &Request) -> io::Result<(Answer, UnixStream)> {
        let mut stream = self.stream()?;
        write_frame(&mut stream, request)?;
        stream.flush()?;
        Ok((read_frame(&mut stream)?, stream))
    }
}

impl Access for Remote {
    fn carry_out(&self, words: &[String], view: &View) -> Reply {
        let asked = self.ask(&Request::CarryOut(words.to_vec(), view.clone()));
        let answered = asked.and_then(|(answer, stream)| match answer {
            Answer::Printed(printed) => Ok(Reply::Printed(printed)),
            Answer::Gone(printed) => Ok(Reply::Gone(printed)),
            Answer::Errand(inside, errand) => Ok(Reply::Errand(Box::new(Door::of(inside, take(&stream)?)?), errand)),
            Answer::Exit => Ok(Reply::Exit),
            Answer::Completion(_) | Answer::Nothing => Err(io::ErrorKind::InvalidData.into()),
        });
        answered.unwrap_or_else(|_| Reply::Gone(Printed::gone()))
    }

    fn complete(&self, line: &str) -> Completion {
        match self.ask(&Request::Complete(line.to_owned())) {
            Ok((Answer::Completion(completion), _)) => completion,
            _ => Completion::default(),
        }
    }

    fn interrupt(&self) {
        // One that is gone has nothing under way.
        let _ = self.ask(&Request::Interrupt);
    }
}
