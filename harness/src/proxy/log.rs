//! The end of a program's output.

use std::collections::VecDeque;
use std::io::{PipeReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::text::shortened;

/// The number of bytes that are kept. The last lines of a failing kube-proxy take some KiB.
const KEPT: usize = 256 << 10;
/// The number of lines that a message quotes.
const QUOTED: usize = 12;

/// The end of a program's output. A thread reads it until no process can write to it.
pub(super) struct Log {
    kept: Arc<Mutex<VecDeque<u8>>>,
    closed: Receiver<()>,
}

impl Log {
    pub(super) fn of(mut output: PipeReader) -> std::io::Result<Self> {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let (closing, closed) = channel();
        let shared = Arc::clone(&kept);
        thread::Builder::new().name("proxy log".to_owned()).spawn(move || {
            let mut buffer = [0; 1 << 14];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                keep(&mut shared.lock().unwrap_or_else(PoisonError::into_inner), &buffer[..count]);
            }
            drop(closing);
        })?;
        Ok(Self { kept, closed })
    }

    /// Waits until no process can write to it; returns false if one still can after this time.
    pub(super) fn is_closed_within(&self, time: Duration) -> bool {
        !matches!(self.closed.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }

    fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether this is the last line.
    pub(super) fn ends_with(&self, line: &str) -> bool {
        self.text().lines().next_back() == Some(line)
    }

    /// The last interesting lines, each indented.
    pub(super) fn last_lines(&self, is_of_interest: impl Fn(&str) -> bool) -> String {
        let text = self.text();
        let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty() && is_of_interest(line));
        let lines: Vec<&str> = lines.collect();
        let quoted = lines[lines.len().saturating_sub(QUOTED)..].iter();
        quoted.map(|line| format!("  {}", shortened(line))).collect::<Vec<_>>().join("\n")
    }
}

/// Adds bytes, and discards the oldest ones beyond the limit.
fn keep(kept: &mut VecDeque<u8>, more: &[u8]) {
    kept.extend(more);
    let surplus = kept.len().saturating_sub(KEPT);
    kept.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use std::io::{Write, pipe};

    use super::*;

    #[test]
    fn the_end_of_a_flood_is_kept() {
        let (reader, mut writer) = pipe().expect("a pipe");
        let log = Log::of(reader).expect("a thread");
        for number in 0..100_000 {
            writeln!(writer, "line {number}").expect("it is read");
        }
        assert!(!log.is_closed_within(Duration::ZERO), "it is open");
        drop(writer);
        assert!(log.is_closed_within(Duration::from_secs(60)), "no one can write to it");
        assert!(log.kept.lock().expect("no panic").len() <= KEPT);
        let lines = log.last_lines(|_| true);
        assert_eq!(lines.lines().count(), QUOTED);
        assert!(lines.ends_with("  line 99998\n  line 99999"), "{lines}");
    }
}
