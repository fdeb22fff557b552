//! A lab that stays up, with interactive commands.
//!
//! 1. [`read`] turns an input into a [`Subject`], the scenario in the state that the shell starts with;
//! 2. `open` builds its lab and passes a [`Shell`] to a front end: a prompt, standard input, or a socket for other terminals;
//! 3. `line` parses a typed line into a command. Commands about the lab as a whole (`commands`, one per file) are run by the `engine` in
//!    the lab's thread, one after the other. A command in a single place, above all a real program, is a [`PlaceTask`]: the front end runs
//!    it through [`PlaceNamespaces`], in a process of its own, on its own terminal.
//!
//! Pods have their own network stack (`topology::with_stacks`), `echo` serves their ports, and `hosts` provides the names of services.
//! `init` is PID 1 of the lab's PID namespace; when it exits, every program ends.

mod capture;
mod commands;
mod completion;
mod echo;
mod engine;
mod get;
mod hosts;
mod init;
mod line;
mod names;
mod namespaces;
mod open;
mod places;
mod program;
mod reply;
mod socket;
mod subject;

pub use capture::{Capturing, end_capture};
pub use init::serve as serve_init;
pub use line::{file_to_read, is_command};
pub use names::is_place;
pub use namespaces::PlaceNamespaces;
pub use open::{Shell, open};
pub use program::Input;
pub use reply::{Access, Completion, PlaceTask, Printed, Reply, View};
pub use socket::{Remote, Running, Socket, running};
pub use subject::{Subject, read};
