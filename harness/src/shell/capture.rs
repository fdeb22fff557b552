//! Captures packets at the interfaces of a place.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use nix::net::if_::if_indextoname;

use super::namespaces::PlaceNamespaces;
use super::reply::Printed;
use crate::lab::Channel;
use crate::observation::{Capture, Direction};
use crate::output;
use crate::report::pcapng;
use crate::text::{counted, reason};
use crate::wire::Frame;

/// The maximum length of frames before they are truncated.
const SNAP: usize = 65_536;
/// The maximum size in bytes of the frames kept for a file.
const MOST: usize = 256 << 20;

/// The state of this process's capture: a front end has one at a time.
static CAPTURE: AtomicU8 = AtomicU8::new(NONE);
const NONE: u8 = 0;
const UNDER_WAY: u8 = 1;
const TO_END: u8 = 2;

/// A capture that is running or about to start.
#[derive(Debug)]
pub struct Capturing(());

impl Capturing {
    /// Registers the capture, so that [`end_capture`] ends it.
    pub fn begin() -> Self {
        CAPTURE.store(UNDER_WAY, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        CAPTURE.store(NONE, Ordering::Relaxed);
    }
}

/// Ends the capture of this process; returns false if there is none.
pub fn end_capture() -> bool {
    CAPTURE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| (now != NONE).then_some(TO_END)).is_ok()
}

impl PlaceNamespaces {
    /// Prints the packets at all interfaces, until [`end_capture`] is called or the requested number is reached, and writes them to the
    /// file, if one is given. Returns the final message.
    pub fn capture(
        &self,
        _under_way: Capturing,
        (file, count): (Option<&PathBuf>, Option<u64>),
        print: &mut (dyn FnMut(String) + Send),
    ) -> Printed {
        let captured = self.run_inside(|| self.packets(file.is_some(), count, print));
        let written = captured.and_then(|(seen, frames)| {
            if let Some(file) = file {
                output::replace(file, &pcapng::render(&frames).map_err(io::Error::other)?)?;
            }
            Ok(seen)
        });
        match written {
            Ok(seen) => Printed {
                errors: format!("{} captured in {}\n", counted(seen, "packet"), self.name()),
                ..Printed::default()
            },
            Err(error) => {
                let errors = format!("capturing in {}: {}\n", self.name(), reason(error));
                Printed { errors, code: 3, ..Printed::default() }
            }
        }
    }

    fn packets(
        &self,
        is_kept: bool,
        count: Option<u64>,
        print: &mut (dyn FnMut(String) + Send),
    ) -> io::Result<(u64, Vec<Capture>)> {
        let channel = Channel::here(self.name()).map_err(io::Error::other)?;
        let (mut seen, mut frames, mut bytes) = (0, Vec::new(), 0);
        let mut buffer = vec![0; SNAP];
        while CAPTURE.load(Ordering::Relaxed) != TO_END && count.is_none_or(|count| seen < count) && bytes < MOST {
            let Some(frame) = channel.receive(&mut buffer).map_err(io::Error::other)? else {
                channel.wait().map_err(io::Error::other)?;
                continue;
            };
            let content = &buffer[..frame.length.min(SNAP)];
            let interface = if_indextoname(frame.interface).map(|name| name.to_string_lossy().into_owned());
            let interface = interface.unwrap_or_default();
            let direction = if frame.outgoing { Direction::Out } else { Direction::In };
            let Ok(packet) = Frame::decode(content) else { continue };
            seen += 1;
            print(format!("{}  {interface:<11} {:<3}  {packet}", clock(frame.time), direction.as_str()));
            if is_kept {
                bytes += content.len();
                let place = self.name().to_owned();
                frames.push(Capture {
                    place,
                    interface,
                    direction,
                    time: frame.time,
                    comment: None,
                    frame: content.to_vec(),
                });
            }
        }
        Ok((seen, frames))
    }
}

/// The time of day, in UTC.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs() % (24 * 60 * 60);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{:06}", time.subsec_micros())
}
