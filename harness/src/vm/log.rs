//! What a machine's kernel logs on its console, and what its qemu says.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::time::Duration;

use super::ending::Ending;

/// The most bytes that are read of a log: its end.
const READ: u64 = 64 << 10;

/// The log of a machine that runs, and what qemu says. Both are files without a name.
#[derive(Debug)]
pub(crate) struct Log {
    console: File,
    messages: File,
}

impl Log {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { console: tempfile::tempfile()?, messages: tempfile::tempfile()? })
    }

    pub(super) fn console(&self) -> &File {
        &self.console
    }

    pub(super) fn messages(&self) -> io::Result<Stdio> {
        Ok(self.messages.try_clone()?.into())
    }

    /// Whether the machine has written anything.
    pub(super) fn has_started(&self) -> bool {
        self.console.metadata().is_ok_and(|found| found.len() > 0)
    }

    /// How a machine ended, whose qemu ended by this signal, if by any.
    pub(crate) fn ending(&self, signal: Option<i32>) -> Ending {
        Ending::of(&end_of(&self.console), &end_of(&self.messages)).or_killed(signal)
    }

    /// What became of a machine that has not responded for this time.
    pub(crate) fn silence(&self, time: Duration) -> Ending {
        Ending::silent(&end_of(&self.console), time)
    }
}

fn end_of(file: &File) -> String {
    let length = file.metadata().map_or(0, |found| found.len());
    let mut bytes = vec![0; length.min(READ) as usize];
    // What cannot be read is missing in a message, which is there for another reason.
    let read = file.read_exact_at(&mut bytes, length.saturating_sub(READ));
    read.map(|()| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_something_ended_says_so() {
        let log = Log::new().expect("files");
        assert_eq!(log.ending(Some(9)).to_string(), "qemu was killed by signal 9\nits kernel logged nothing");
        assert_eq!(
            log.ending(None).to_string(),
            "the machine ended before its kernel started\nits kernel logged nothing"
        );
    }
}
