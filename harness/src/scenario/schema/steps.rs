//! The section `tests:`.

mod during;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{OneOrMany, RawEndpoints, RawFamily, RawLink, RawNode, RawPod, RawService, RawTime};
pub(crate) use during::{RawBounds, RawDuring, RawRange, RawRate};

/// A test: a probe with its expectation, or a sequence of steps.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTest {
    /// A sentence that says what must hold.
    pub(crate) name: String,
    /// Tags, in addition to those of the scenario.
    #[serde(default)]
    pub(crate) tags: OneOrMany<String>,
    /// What is sent.
    pub(crate) probe: Option<RawProbe>,
    /// The expected result.
    pub(crate) expect: Option<RawExpect>,
    /// Instead of one probe: a sequence of steps.
    pub(crate) steps: Option<Vec<RawStep>>,
}

/// A step: objects that change, kube-proxies that are restarted, stopped or started, links that change, nodes that are turned off or on, a
/// probe with its expectation, flows during a change, or a pause.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawStep {
    /// Objects that change; kube-proxy syncs its rules on every node where it runs.
    pub(crate) apply: Option<RawApply>,
    /// kube-proxies that are restarted: `proxy` for all that are running, or `proxy@NODE`. Each rewrites all of its rules.
    pub(crate) restart: Option<OneOrMany<String>>,
    /// kube-proxies that are stopped: `proxy` or `proxy@NODE`. The rules on their nodes do not change until a step starts them.
    pub(crate) stop: Option<OneOrMany<String>>,
    /// Stopped kube-proxies that are started: `proxy` or `proxy@NODE`.
    pub(crate) start: Option<OneOrMany<String>>,
    /// Links that change: of a pod to its node, of a node or an outside host to the network between nodes.
    pub(crate) link: Option<OneOrMany<RawLink>>,
    /// Nodes that are turned off, as `node/NAME`: their links are down, their kube-proxies are stopped, and nothing on them sends.
    /// Kubernetes' reaction to such a node (endpoints on it become unready) needs a separate `apply`.
    pub(crate) down: Option<OneOrMany<String>>,
    /// Nodes that are turned on again, as `node/NAME`: their conntrack and affinity state is empty, and their kube-proxies start.
    pub(crate) up: Option<OneOrMany<String>>,
    /// A change during which flows are sent at a rate; the step reports what happens to them.
    pub(crate) during: Option<RawDuring>,
    /// A pause, so that kernel state ages: a number of seconds or milliseconds, such as `2s` or `500ms`; at most `60s`.
    #[schemars(with = "Option<String>", regex(pattern = r"^[0-9]+(ms|s)$"))]
    pub(crate) wait: Option<RawTime>,
    /// What is sent.
    pub(crate) probe: Option<RawProbe>,
    /// The expected result.
    pub(crate) expect: Option<RawExpect>,
}

/// Objects that change. They are matched by name, and the given fields replace those of the object; an object that does not exist yet is
/// added; `delete: true` deletes one. Nodes and pods must exist already. The entries of `endpoints` replace all endpoints of their
/// Services.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawApply {
    /// Nodes: their labels, and `hostnameOverride`.
    pub(crate) nodes: Vec<RawNode>,
    /// Pods: their labels and ports.
    pub(crate) pods: Vec<RawPod>,
    /// Services.
    pub(crate) services: Vec<RawService>,
    /// Endpoints.
    pub(crate) endpoints: Vec<RawEndpoints>,
    /// Files with plain Kubernetes objects, which replace those of the same kind and name.
    pub(crate) manifests: Vec<String>,
}

/// What is sent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawProbe {
    /// The sender: `pod/NAME`, `node/NAME`, `localhost@NODE` or `host/NAME`.
    pub(crate) from: String,
    /// To where: `service/NAME:PORT`, `nodeport/NAME:PORT@NODE`, `nodeport/NAME:PORT@localhost`, `loadbalancer/NAME:PORT`,
    /// `externalip/NAME:PORT`, `pod/NAME:PORT`, `node/NAME:PORT`, `host/NAME:PORT`, `ADDRESS:PORT` or `[IPV6]:PORT`. PORT is
    /// a number, or the name of a Service's or pod's port. The suffix `@NODE` sends an outside host's packet through that node.
    pub(crate) to: String,
    /// tcp, udp or sctp. Default: the protocol of the Service's port, else tcp.
    #[schemars(extend("enum" = ["tcp", "udp", "sctp", null]))]
    pub(crate) protocol: Option<String>,
    /// The sender's port. Default: a new one.
    #[schemars(range(min = 1, max = 65535))]
    pub(crate) source_port: Option<u16>,
    /// The flags of the TCP segment that is sent: any of SYN, ACK, FIN, RST, PSH, URG. With ACK, its sequence numbers are outside the
    /// window of every connection. Only from pods and hosts. Default: SYN, which opens a connection.
    pub(crate) tcp_flags: Option<Vec<RawTcpFlag>>,
    /// The number of flows, each with a new source port; `auto` for as many as the balance test needs. Default: 1.
    pub(crate) flows: Option<RawFlows>,
    /// The size in bytes of a UDP datagram's IP packet, including headers, comparable to an MTU. Only from pods and hosts. Default: a small
    /// one.
    #[schemars(range(min = 44, max = 65_000))]
    pub(crate) size: Option<u16>,
    /// Whether routers must not fragment it, by the DF flag of IPv4, which Linux sets by default. Routers never fragment IPv6 packets.
    /// Default: true.
    pub(crate) dont_fragment: Option<bool>,
    /// The number of fragments that the sender splits the datagram into. Default: 1.
    #[schemars(range(min = 2, max = 64))]
    pub(crate) fragments: Option<u16>,
    /// The only family to use. Default: every family that both ends have.
    pub(crate) family: Option<RawFamily>,
}

/// A flag of a TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum RawTcpFlag {
    /// Opens a connection.
    Syn,
    /// The acknowledgment number is valid.
    Ack,
    /// The sender has sent all its data.
    Fin,
    /// The connection is aborted.
    Rst,
    /// Data should be delivered to the application immediately.
    Psh,
    /// The urgent pointer is valid.
    Urg,
}

/// The number of flows of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RawFlows {
    /// This many.
    Count(u64),
    /// As many as the balance test needs.
    Auto(RawAuto),
}

/// The word `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawAuto {
    /// As many as needed.
    Auto,
}

impl<'de> Deserialize<'de> for RawFlows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountOrAuto;

        impl Visitor<'_> for CountOrAuto {
            type Value = RawFlows;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer or `auto`")
            }

            fn visit_u64<E: Error>(self, count: u64) -> Result<RawFlows, E> {
                Ok(RawFlows::Count(count))
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<RawFlows, E> {
                if word == "auto" {
                    Ok(RawFlows::Auto(RawAuto::Auto))
                } else {
                    Err(E::unknown_variant(word, &["auto"]))
                }
            }
        }

        deserializer.deserialize_any(CountOrAuto)
    }
}

/// The expected result of a probe. Every given field must hold.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawExpect {
    /// The destination: one of `pod/NAME:PORT`, `node/NAME:PORT`, `host/NAME:PORT`, `ADDRESS:PORT`.
    /// The port is optional. `pod/NAME` of several replicas means any of them. `same-as-before`: the destination of the previous probe of
    /// the same test.
    pub(crate) delivered: Option<OneOrMany<String>>,
    /// The sender receives a rejection: true for any kind, or the kind. With `during`, the number of rejected flows, as in `lost`.
    pub(crate) rejected: Option<RawRejected>,
    /// It is not delivered and the sender receives nothing. True: a node dropped it. `node/NAME` or `pod/NAME`: that one did.
    /// `underlay`: it left the cluster, and no machine there received it.
    pub(crate) dropped: Option<RawDropped>,
    /// True: it is not delivered. Whether it is dropped or rejected, and where, does not matter.
    pub(crate) fails: Option<bool>,
    /// The source address that the receiver sees: `preserved`, `masqueraded` (one of a node's) or an address.
    pub(crate) source: Option<String>,
    /// The source of the reply as the sender sees it: `from-vip` (the probe's destination), an address, or `none`.
    pub(crate) reply: Option<String>,
    /// How flows are balanced: `even`, `promised`, `all` if every target gets some, or the share of each target.
    pub(crate) balance: Option<RawBalance>,
    /// Whether all flows of the sender go to one endpoint.
    pub(crate) affinity: Option<bool>,
    /// The sender receives ICMP "fragmentation needed" or ICMPv6 "packet too big", because the packet is larger than the MTU of a link:
    /// true, or the MTU and the sender of the error.
    #[serde(rename = "tooBig")]
    pub(crate) too_big: Option<RawTooBig>,
    /// The number of fragments in which the packet is delivered; 1 if it is not fragmented. Only for pods and hosts as receivers: a node's
    /// kernel reassembles fragments.
    pub(crate) fragments: Option<u16>,
    /// With many flows: the number of lost flows, exactly or within bounds; the others must be delivered. With `during`: the number of
    /// flows that get neither a reply nor a rejection, exactly or within bounds.
    pub(crate) lost: Option<RawBounds>,
    /// With `during`: the number of flows that start after the change and are delivered to an address that is no longer an endpoint,
    /// exactly or within bounds.
    pub(crate) stale: Option<RawBounds>,
    /// With `during`: the first flow that follows the change starts within this time after it, such as `500ms` or `2s`.
    #[serde(rename = "followedWithin")]
    #[schemars(with = "Option<String>", regex(pattern = r"^[0-9]+(ms|s)$"))]
    pub(crate) followed_within: Option<RawTime>,
}

impl RawExpect {
    /// The fields for flows of one probe.
    pub(crate) const OF_PROBE: [&str; 11] = [
        "delivered",
        "rejected",
        "dropped",
        "fails",
        "tooBig",
        "fragments",
        "source",
        "reply",
        "balance",
        "affinity",
        "lost",
    ];
    /// The fields for flows during a change.
    pub(crate) const OF_DURING: [&str; 4] = ["lost", "rejected", "stale", "followedWithin"];
}

/// How a probe is rejected.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RawRejected {
    /// Any kind.
    Any(bool),
    /// This kind.
    How(RawRejectKind),
    /// This many flows of `during`.
    Flows(RawBounds),
}

/// The kinds of rejections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawRejectKind {
    /// Any kind.
    Any,
    /// A TCP segment with RST.
    TcpReset,
    /// An SCTP ABORT.
    SctpAbort,
    /// ICMP or ICMPv6 port unreachable.
    IcmpPortUnreachable,
    /// Another ICMP or ICMPv6 destination unreachable.
    IcmpOtherUnreachable,
}

impl<'de> Deserialize<'de> for RawRejected {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TrueOrKind;

        impl<'de> Visitor<'de> for TrueOrKind {
            type Value = RawRejected;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true` or a kind of rejection")
            }

            fn visit_bool<E: Error>(self, any: bool) -> Result<RawRejected, E> {
                Ok(RawRejected::Any(any))
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<RawRejected, E> {
                RawRejectKind::deserialize(serde::de::value::StrDeserializer::new(word)).map(RawRejected::How)
            }

            fn visit_u64<E: Error>(self, flows: u64) -> Result<RawRejected, E> {
                Ok(RawRejected::Flows(RawBounds::Exactly(flows)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawRejected, A::Error> {
                RawRange::deserialize(MapAccessDeserializer::new(map)).map(RawBounds::Within).map(RawRejected::Flows)
            }
        }

        deserializer.deserialize_any(TrueOrKind)
    }
}

/// The ICMP error for a packet that is too big.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RawTooBig {
    /// Any such error.
    Any(bool),
    /// This one.
    Message(RawTooBigMessage),
}

/// ICMP "fragmentation needed", or ICMPv6 "packet too big".
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTooBigMessage {
    /// The MTU that it reports.
    pub(crate) mtu: Option<u16>,
    /// The source of the error as the sender sees it: `node/NAME`, `vip` (the address that the probe was sent to) or an address.
    pub(crate) from: Option<String>,
}

impl<'de> Deserialize<'de> for RawTooBig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TrueOrMessage;

        impl<'de> Visitor<'de> for TrueOrMessage {
            type Value = RawTooBig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, or a map with `mtu` and `from`")
            }

            fn visit_bool<E: Error>(self, any: bool) -> Result<RawTooBig, E> {
                Ok(RawTooBig::Any(any))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawTooBig, A::Error> {
                RawTooBigMessage::deserialize(MapAccessDeserializer::new(map)).map(RawTooBig::Message)
            }
        }

        deserializer.deserialize_any(TrueOrMessage)
    }
}

/// Where a packet is dropped.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RawDropped {
    /// On any node.
    Any(bool),
    /// At this place.
    At(String),
}

impl<'de> Deserialize<'de> for RawDropped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TrueOrPlace;

        impl Visitor<'_> for TrueOrPlace {
            type Value = RawDropped;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true` or a place, for example `node/NAME`")
            }

            fn visit_bool<E: Error>(self, any: bool) -> Result<RawDropped, E> {
                Ok(RawDropped::Any(any))
            }

            fn visit_str<E: Error>(self, place: &str) -> Result<RawDropped, E> {
                Ok(RawDropped::At(place.to_owned()))
            }
        }

        deserializer.deserialize_any(TrueOrPlace)
    }
}

/// The balance of flows among endpoints.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RawBalance {
    /// `even`: all targets get the same share. `promised`: the shares that the Service API promises, with policies and topology hints.
    /// `all`: all targets get some flows.
    Word(String),
    /// The share of each target; together 1.
    Shares(BTreeMap<String, f64>),
}

impl<'de> Deserialize<'de> for RawBalance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrShares;

        impl<'de> Visitor<'de> for WordOrShares {
            type Value = RawBalance;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`even`, `promised`, `all` or a map of destinations to shares")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<RawBalance, E> {
                Ok(RawBalance::Word(word.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawBalance, A::Error> {
                BTreeMap::deserialize(MapAccessDeserializer::new(map)).map(RawBalance::Shares)
            }
        }

        deserializer.deserialize_any(WordOrShares)
    }
}
