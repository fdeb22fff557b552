//! Sizes and fragmentation of datagrams.

use std::net::SocketAddr;

use svclab_rules::cluster::{Cluster, LinkOwner, Protocol};

use super::findings::Findings;
use crate::scenario::model::{Shape, Vantage};
use crate::scenario::schema::RawProbe;
use crate::yaml::At;

/// The default MTU of a link.
pub(crate) const USUAL_MTU: u16 = 1500;
/// The largest datagram: somewhat less than the maximum of the length field.
const LARGEST: u16 = 65_000;
/// Maximum number of fragments.
const MOST: u16 = 64;
/// The minimum payload of a probe's IP packet: the UDP header, a mark and a tag.
const SMALLEST_CONTENT: u16 = 8 + 16;

/// Resolves the shape of a probe's datagrams.
pub(crate) fn shape(
    raw: &RawProbe,
    protocol: Protocol,
    has_kernel: bool,
    at: At<'_>,
    findings: &mut Findings,
) -> Shape {
    let given = [
        ("size", raw.size.is_some()),
        ("dontFragment", raw.dont_fragment.is_some()),
        ("fragments", raw.fragments.is_some()),
    ];
    for (field, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
        let at = at.field(field);
        if protocol != Protocol::Udp {
            let message = format!("`{field}` does not apply to {protocol}");
            findings.wrong(at.key(), message, "Omit it, or set `protocol: udp`.");
        }
        if has_kernel {
            let message = format!(
                "`{field}` is only valid for senders whose packets svclab creates; this sender's packets are created by the kernel"
            );
            findings.wrong(
                at.key(),
                message,
                "Send from a pod without `hostNetwork` or rules of its own, or from `host/NAME`, or omit it.",
            );
        }
        if raw.flows.is_some() {
            findings.wrong(
                at.key(),
                format!("`{field}` is only valid for single flows"),
                format!("Omit `{field}` or `flows`."),
            );
        }
    }
    if let Some(fragments) = raw.fragments {
        check_fragments(fragments, raw, at, findings);
    }
    let may_fragment = raw.dont_fragment == Some(false) || raw.fragments.is_some();
    Shape { size: raw.size, may_fragment, fragments: raw.fragments }
}

fn check_fragments(fragments: u16, raw: &RawProbe, at: At<'_>, findings: &mut Findings) {
    if !(2..=MOST).contains(&fragments) {
        let message = format!("`fragments`: {fragments} is out of range");
        findings.wrong(at.field("fragments"), message, format!("Use a number from 2 to {MOST}, or omit it."));
    }
    if raw.size.is_none() {
        findings.wrong(at.field("fragments").key(), "`fragments` needs a `size`", "Set `size`.");
    }
    if raw.dont_fragment == Some(true) {
        let message = "a fragmented packet cannot have the DF flag";
        findings.wrong(at.field("dontFragment").key(), message, "Omit `dontFragment` or `fragments`.");
    }
}

/// Reports sizes that a datagram to an address cannot have.
pub(crate) fn check_size(
    shape: Shape,
    to: SocketAddr,
    from: &Vantage,
    cluster: &Cluster,
    at: At<'_>,
    findings: &mut Findings,
) {
    let Some(size) = shape.size else { return };
    let header = if to.is_ipv4() { 20 } else { 40 };
    let smallest = header + SMALLEST_CONTENT.max(shape.fragments.unwrap_or(1).saturating_mul(8));
    if !(smallest..=LARGEST).contains(&size) {
        let message = format!("`size`: {size} is out of range");
        findings.wrong(at.field("size"), message, format!("Use a number from {smallest} to {LARGEST}."));
    }
    let owner = match from {
        Vantage::Pod(pod) => LinkOwner::Pod(pod.clone()),
        Vantage::Host(host) => LinkOwner::Host(host.clone()),
        Vantage::Node(_) | Vantage::Localhost(_) => return,
    };
    let mtu = cluster.links.get(&owner).and_then(|link| link.mtu).unwrap_or(USUAL_MTU);
    let (largest, whose) = match shape.largest_fragment(to.ip()) {
        Some(largest) => (largest, "the fragments are larger"),
        None => (size, "the packet is larger"),
    };
    if largest > mtu {
        let message = format!("{whose} than the MTU of {from}'s own link, {mtu}");
        findings.wrong(at.field("size"), message, "Use a smaller `size`, or more `fragments`.");
    }
}
