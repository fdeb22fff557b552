//! The server side: the shell itself.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::{io, process, thread};

use super::descriptors::send;
use super::protocol::{Request, Response, is_from_same_user};
use super::running::address;
use crate::shell::open::Shell;
use crate::shell::reply::{Access, Reply};
use crate::worker::{read_frame, write_frame};

/// The socket of a shell.
pub struct Socket(UnixListener);

impl Socket {
    /// Opens the socket of a lab.
    ///
    /// # Errors
    ///
    /// If the kernel provides no socket.
    pub fn bind(lab: &str) -> io::Result<Self> {
        UnixListener::bind_addr(&address(lab, process::id())?).map(Self)
    }

    /// Serves clients, each in a thread of its own, as long as the process lives.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn serve(self, shell: &Shell) -> io::Result<()> {
        let shell = shell.clone();
        let accept = move || {
            for stream in self.0.incoming().flatten().filter(is_from_same_user) {
                let shell = shell.clone();
                // If no thread can be started, the client sees its connection closed.
                let _ = thread::Builder::new().name("client".to_owned()).spawn(move || converse(&shell, stream));
            }
        };
        thread::Builder::new().name("socket".to_owned()).spawn(accept).map(drop)
    }
}

/// Responds to a client's requests until it disconnects.
fn converse(shell: &Shell, mut stream: UnixStream) -> io::Result<()> {
    loop {
        let (response, namespaces) = match read_frame(&mut stream)? {
            Request::Execute(words, view) => match shell.execute(&words, &view) {
                Reply::Printed(printed) => (Response::Printed(printed), None),
                Reply::Gone(printed) => (Response::Gone(printed), None),
                Reply::PlaceTask(namespaces, task) => {
                    (Response::PlaceTask(namespaces.place.clone(), task), Some(namespaces))
                }
                Reply::Exit => (Response::Exit, None),
            },
            Request::Complete(line) => (Response::Completion(shell.complete(&line)), None),
            Request::Interrupt => {
                shell.interrupt();
                (Response::Nothing, None)
            }
            Request::UserNamespace => {
                write_frame(&mut stream, &Response::Nothing)?;
                send(&stream, &[File::open("/proc/self/ns/user")?.as_raw_fd()])?;
                continue;
            }
        };
        write_frame(&mut stream, &response)?;
        if let Some(namespaces) = namespaces {
            send(&stream, &namespaces.descriptors().map(|descriptor| descriptor.as_raw_fd()))?;
        }
    }
}
