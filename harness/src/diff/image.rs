//! Compares a cluster with one that differs only in its addresses.

use std::net::IpAddr;

use svclab_rules::walk::{Classes, Packet};

use super::DiffError;
use super::outcome::is_alike_under;
use super::side::Side;
use crate::predict::{Network, Senders};
use crate::scenario::Scenario;
use crate::verify::vantages;

/// The result of the comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Image {
    /// The number of classes of packets compared, of both sides.
    pub(crate) classes: usize,
    /// Whether there are more classes than were compared.
    pub(crate) is_cut: bool,
    /// A packet, with its sender, that the second side handles differently.
    pub(crate) differing: Option<String>,
}

/// Predicts one packet of each class of either side, at most `most` per side, and the same packet with the other side's addresses there.
/// `images` translate addresses: the first from `before` to `after`, the other back. Machines have the same names on both sides.
///
/// # Errors
///
/// If a side cannot be predicted.
pub(crate) fn image(
    [before, after]: [&Scenario; 2],
    images: [&dyn Fn(IpAddr) -> IpAddr; 2],
    most: usize,
) -> Result<Image, DiffError> {
    let sides = [Side::of(before)?, Side::of(after)?];
    let networks = [sides[0].network()?, sides[1].network()?];
    let all = vantages(before);
    let [own, others] = networks.each_ref().map(|network| Senders::of(network, &all));
    let mut found = Image::default();
    for (at, back) in [(0, 1), (1, 0)] {
        let senders = [&own, &others];
        for from in senders[at] {
            let key = from.key(&networks[at]);
            let Some(to) = senders[back].iter().find(|to| to.key(&networks[back]) == key) else {
                found.differing.get_or_insert(format!("{key}: no such sender on the other side"));
                continue;
            };
            found.add(([from, to], [&networks[at], &networks[back]]), images[at], most);
        }
    }
    Ok(found)
}

impl Image {
    fn add(&mut self, sides: ([&Senders; 2], [&Network<'_>; 2]), image: &dyn Fn(IpAddr) -> IpAddr, most: usize) {
        let ([from, to], networks) = sides;
        let mut classes = Classes::of([from.packets(networks[0])], from.like());
        let mut count = 0;
        while let Some(class) =
            classes.next_by(|witness, narrowing| networks[0].predict_set(from, witness, Some(narrowing), None))
        {
            let Some((packet, prediction)) = class.found else { continue };
            count += 1;
            if count > most {
                self.is_cut = true;
                break;
            }
            let other = Packet { source: image(packet.source), destination: image(packet.destination), ..packet };
            let there = networks[1].predict_set(to, &other, None, None).map(|(_, prediction)| prediction);
            if self.differing.is_none() && !is_alike_under([&Some(prediction), &there], &packet, image) {
                let sender = from.vantage(&packet).map(ToString::to_string).unwrap_or_default();
                self.differing = Some(format!("{sender} > {}", described(&packet)));
            }
        }
        self.classes += count;
    }
}

/// `10.96.0.10:80, protocol 6`
fn described(packet: &Packet) -> String {
    let port = packet.transport.ports().map(|(_, port)| format!(" port {port}")).unwrap_or_default();
    format!("{}{port}, protocol {}", packet.destination, packet.transport.protocol())
}
