//! The way of a packet as it was seen, in few lines.

use crate::observation::Sighting;

/// A stretch on which a packet stayed as it was.
pub(super) struct Stretch<'a> {
    /// The packet in words.
    pub(super) packet: &'a str,
    /// The places that saw it, in order.
    places: Vec<&'a str>,
    /// Where it was seen last.
    pub(super) last: &'a Sighting,
}

impl Stretch<'_> {
    /// `node/worker > underlay > node/worker2`.
    pub(super) fn places(&self) -> String {
        self.places.join(" > ")
    }
}

/// A way in stretches: a new one begins where something has changed the packet, or where it is another packet.
pub(super) fn stretches(path: &[Sighting]) -> Vec<Stretch<'_>> {
    let mut stretches: Vec<Stretch<'_>> = Vec::new();
    for seen in path {
        match stretches.last_mut().filter(|last| last.packet == seen.packet) {
            Some(stretch) => {
                stretch.last = seen;
                if stretch.places.last() != Some(&seen.place.as_str()) {
                    stretch.places.push(&seen.place);
                }
            }
            None => stretches.push(Stretch { packet: &seen.packet, places: vec![&seen.place], last: seen }),
        }
    }
    stretches
}
