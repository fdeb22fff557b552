//! The client side: a front end in another process.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;

use super::descriptors::receive;
use super::protocol::{Request, Response, is_from_same_user};
use super::running::{Running, address};
use crate::shell::namespaces::{PlaceNamespaces, join_user_namespace};
use crate::shell::reply::{Access, Completion, Printed, Reply, View};
use crate::worker::{read_frame, write_frame};

/// A connection to the shell of another process.
pub struct Remote {
    of: Running,
}

impl Remote {
    pub(super) fn new(of: &Running) -> Self {
        Self { of: of.clone() }
    }

    /// Connects to a shell, and enters its lab's user namespace unless the process is in it already. The process must have a single thread.
    ///
    /// # Errors
    ///
    /// If the shell is gone, or belongs to another user.
    pub fn connect(of: &Running) -> io::Result<Self> {
        let remote = Self::new(of);
        let mut stream = remote.stream()?;
        write_frame(&mut stream, &Request::UserNamespace)?;
        read_frame::<Response>(&mut stream)?;
        let namespace = receive(&stream)?.into_iter().next().ok_or(io::ErrorKind::UnexpectedEof)?;
        join_user_namespace(namespace)?;
        Ok(remote)
    }

    fn stream(&self) -> io::Result<UnixStream> {
        let stream = UnixStream::connect_addr(&address(&self.of.lab, self.of.pid)?)?;
        if is_from_same_user(&stream) { Ok(stream) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }

    fn ask(&self, request: &Request) -> io::Result<(Response, UnixStream)> {
        let mut stream = self.stream()?;
        write_frame(&mut stream, request)?;
        stream.flush()?;
        Ok((read_frame(&mut stream)?, stream))
    }
}

impl Running {
    /// The possible first words of a line: commands and places.
    pub fn first_words(&self) -> Vec<String> {
        Remote::new(self).complete("").words
    }
}

impl Access for Remote {
    fn execute(&self, words: &[String], view: &View) -> Reply {
        let asked = self.ask(&Request::Execute(words.to_vec(), view.clone()));
        let responded = asked.and_then(|(response, stream)| match response {
            Response::Printed(printed) => Ok(Reply::Printed(printed)),
            Response::Gone(printed) => Ok(Reply::Gone(printed)),
            Response::PlaceTask(place, task) => {
                Ok(Reply::PlaceTask(Box::new(PlaceNamespaces::from_descriptors(place, receive(&stream)?)?), task))
            }
            Response::Exit => Ok(Reply::Exit),
            Response::Completion(_) | Response::Nothing => Err(io::ErrorKind::InvalidData.into()),
        });
        responded.unwrap_or_else(|_| Reply::Gone(Printed::gone()))
    }

    fn complete(&self, line: &str) -> Completion {
        match self.ask(&Request::Complete(line.to_owned())) {
            Ok((Response::Completion(completion), _)) => completion,
            _ => Completion::default(),
        }
    }

    fn interrupt(&self) {
        // A shell that has ended has nothing to interrupt.
        let _ = self.ask(&Request::Interrupt);
    }
}
