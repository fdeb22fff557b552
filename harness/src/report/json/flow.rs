//! The observation of a single flow.

use std::net::{IpAddr, SocketAddr};

use schemars::JsonSchema;
use serde::Serialize;

use crate::observation::{self, Delivery, FlowObservation, ObservedOutcome};

/// A single flow.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Flow<'a> {
    /// The protocol: `tcp`, `udp` or `sctp`.
    protocol: &'static str,
    /// The source as sent.
    source: SocketAddr,
    /// The destination as sent.
    destination: SocketAddr,
    /// `delivered`, `duplicated`, `rejected` or `dropped`.
    outcome: &'static str,
    /// The deliveries: one, or several if the packet was duplicated.
    deliveries: Vec<Place<'a>>,
    /// The place that captured a dropped packet last: `node/worker`, `underlay`.
    dropped_at: Option<&'a str>,
    /// The rejection that the sender received.
    rejection: Option<Rejection<'a>>,
    /// The source of the reply that the sender received.
    reply: Option<SocketAddr>,
    /// The captured packets, in order.
    path: Vec<Sighting<'a>>,
}

/// A delivery.
#[derive(Serialize, JsonSchema)]
struct Place<'a> {
    /// The receiver: `pod/nginx`.
    at: &'a str,
    /// The source that it sees.
    source: SocketAddr,
    /// The destination that it sees.
    destination: SocketAddr,
    /// The number of fragments that it arrived in; `null` if a node's kernel received it.
    fragments: Option<u16>,
}

/// A rejection.
#[derive(Serialize, JsonSchema)]
struct Rejection<'a> {
    /// The ICMP error or reset, in words.
    what: &'a str,
    /// The address that sent it.
    by: IpAddr,
}

/// A captured packet.
#[derive(Serialize, JsonSchema)]
struct Sighting<'a> {
    /// The machine, or `underlay`.
    place: &'a str,
    /// The interface.
    interface: &'a str,
    /// `in` or `out`.
    direction: &'static str,
    /// The packet, in words.
    packet: &'a str,
}

impl<'a> From<&'a FlowObservation> for Flow<'a> {
    fn from(flow: &'a FlowObservation) -> Self {
        let (outcome, deliveries, rejection): (_, &[Delivery], _) = match &flow.outcome {
            ObservedOutcome::Delivered(delivery) => ("delivered", std::slice::from_ref(delivery), None),
            ObservedOutcome::Duplicated(deliveries) => ("duplicated", deliveries, None),
            ObservedOutcome::Rejected(rejection) => ("rejected", &[], Some(rejection)),
            ObservedOutcome::Dropped { .. } => ("dropped", &[], None),
        };
        let place = |to: &'a Delivery| Place {
            at: &to.at,
            source: to.source,
            destination: to.destination,
            fragments: to.fragments,
        };
        let sighting = |seen: &'a observation::Sighting| Sighting {
            place: &seen.place,
            interface: &seen.interface,
            direction: seen.direction.as_str(),
            packet: &seen.packet,
        };
        Self {
            protocol: flow.protocol.as_str(),
            source: flow.source,
            destination: flow.destination,
            outcome,
            deliveries: deliveries.iter().map(place).collect(),
            dropped_at: match &flow.outcome {
                ObservedOutcome::Dropped { at, .. } => Some(at),
                _ => None,
            },
            rejection: rejection
                .or(flow.contradiction.as_ref())
                .map(|rejection| Rejection { what: &rejection.what, by: rejection.by }),
            reply: flow.reply,
            path: flow.path.iter().map(sighting).collect(),
        }
    }
}
