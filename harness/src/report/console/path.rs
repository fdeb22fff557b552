//! The path of a packet, as captured by the taps.

use crate::observation::Sighting;
use crate::page::{FAINT, MARKED, Page};

/// A part of a path on which the packet did not change.
struct Segment<'a> {
    packet: &'a str,
    /// The places that captured it, in order.
    places: Vec<&'a str>,
    last: &'a Sighting,
}

impl Segment<'_> {
    /// `node/worker > underlay > node/worker2`.
    fn places(&self) -> String {
        self.places.join(" > ")
    }
}

/// Splits a path into segments: a new one starts where the packet is changed, or with another packet.
fn segments(path: &[Sighting]) -> Vec<Segment<'_>> {
    let mut segments: Vec<Segment<'_>> = Vec::new();
    for seen in path {
        match segments.last_mut().filter(|last| last.packet == seen.packet) {
            Some(segment) => {
                segment.last = seen;
                if segment.places.last() != Some(&seen.place.as_str()) {
                    segment.places.push(&seen.place);
                }
            }
            None => segments.push(Segment { packet: &seen.packet, places: vec![&seen.place], last: seen }),
        }
    }
    segments
}

/// Adds the path of a failed probe: one line for each segment, or for each interface with `--verbose`.
pub(super) fn failed(page: &mut Page, path: &[Sighting]) {
    page.gap();
    let heading = if path.is_empty() { "no tap captured the packet" } else { "path (as captured)" };
    page.line(8, page.paint(FAINT, heading));
    if page.settings.is_verbose() {
        return interfaces(page, 10, path, true);
    }
    let segments = segments(path);
    let width = widest(segments.iter().map(Segment::places));
    for (index, segment) in segments.iter().enumerate() {
        let places = format!("{:width$}  ", segment.places());
        if index + 1 < segments.len() {
            page.labelled(10, places, segment.packet);
        } else {
            let Sighting { interface, direction: way, .. } = segment.last;
            let text = format!("{}  < last capture: {} on {interface}", segment.packet, way.as_str());
            page.labelled(10, page.paint(MARKED, places), page.paint(MARKED, text));
        }
    }
}

/// Adds a path: one line for each segment, or for each interface with `--verbose`.
pub(super) fn observed(page: &mut Page, indent: usize, path: &[Sighting]) {
    if page.settings.is_verbose() {
        return interfaces(page, indent, path, false);
    }
    let segments = segments(path);
    let width = widest(segments.iter().map(Segment::places));
    for segment in &segments {
        page.labelled(indent, page.paint(FAINT, format!("{:width$}  ", segment.places())), segment.packet);
    }
}

/// Adds a path with a line for each interface.
pub(super) fn interfaces(page: &mut Page, indent: usize, path: &[Sighting], failed: bool) {
    let places = widest(path.iter().map(|seen| seen.place.as_str()));
    let interfaces = widest(path.iter().map(|seen| seen.interface.as_str()));
    for (index, Sighting { place, interface, direction: way, packet, .. }) in path.iter().enumerate() {
        let way = way.as_str();
        let start = format!("{:>2}  {place:places$}  {interface:interfaces$}  {way:<3}  ", index + 1);
        if failed && index + 1 == path.len() {
            let text = format!("{packet}  < last captured");
            page.labelled(indent, page.paint(MARKED, start), page.paint(MARKED, text));
        } else {
            page.labelled(indent, start, packet);
        }
    }
}

fn widest(names: impl Iterator<Item = impl AsRef<str>>) -> usize {
    names.map(|name| name.as_ref().chars().count()).max().unwrap_or(0)
}
