//! Flows during a change.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{RawApply, RawProbe};
use crate::scenario::schema::values::Notation;
use crate::scenario::schema::{OneOrMany, RawLink, RawTime};

/// Flows that are sent at a rate while something changes: one of `apply`, `restart`, `stop`, `start`, `link`,
/// `down` and `up`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawDuring {
    /// Objects that change, as in a separate step.
    pub(crate) apply: Option<RawApply>,
    /// kube-proxies that are restarted, as in a separate step.
    pub(crate) restart: Option<OneOrMany<String>>,
    /// kube-proxies that are stopped, as in a separate step.
    pub(crate) stop: Option<OneOrMany<String>>,
    /// kube-proxies that are started, as in a separate step.
    pub(crate) start: Option<OneOrMany<String>>,
    /// Links that change, as in a separate step.
    pub(crate) link: Option<OneOrMany<RawLink>>,
    /// Nodes that are turned off, as in a separate step.
    pub(crate) down: Option<OneOrMany<String>>,
    /// Nodes that are turned on, as in a separate step.
    pub(crate) up: Option<OneOrMany<String>>,
    /// The probe that is sent, or a list of probes, each at the rate. Every flow is a new connection from a new source port.
    pub(crate) probe: OneOrMany<RawProbe>,
    /// New flows per second of each probe, such as `100/s`; at most `1000/s`. Default: `100/s`.
    #[schemars(with = "Option<String>", regex(pattern = r"^[0-9]+/s$"))]
    pub(crate) rate: Option<RawRate>,
    /// How long flows are sent before the change, such as `500ms` or `2s`; at most `10s`. Default: `500ms`.
    #[schemars(with = "Option<String>", regex(pattern = r"^[0-9]+(ms|s)$"))]
    pub(crate) before: Option<RawTime>,
    /// How long flows are sent from the change on; at most `60s`. Default: `2s`.
    #[schemars(with = "Option<String>", regex(pattern = r"^[0-9]+(ms|s)$"))]
    pub(crate) after: Option<RawTime>,
}

/// A rate as text.
#[derive(Debug)]
pub(crate) struct RawRate(pub(crate) String);

impl<'de> Deserialize<'de> for RawRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Notation("a rate such as `100/s`")).map(Self)
    }
}

/// The expected number of flows.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RawBounds {
    /// This many.
    Exactly(u64),
    /// A number within these bounds.
    Within(RawRange),
}

/// Bounds of a number; at least one of the two.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawRange {
    /// The smallest number. Default: 0.
    pub(crate) at_least: Option<u64>,
    /// The largest number. Default: any.
    pub(crate) at_most: Option<u64>,
}

impl<'de> Deserialize<'de> for RawBounds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrRange;

        impl<'de> Visitor<'de> for NumberOrRange {
            type Value = RawBounds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of flows, or `{atMost: 5}`")
            }

            fn visit_u64<E: Error>(self, flows: u64) -> Result<RawBounds, E> {
                Ok(RawBounds::Exactly(flows))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawBounds, A::Error> {
                RawRange::deserialize(MapAccessDeserializer::new(map)).map(RawBounds::Within)
            }
        }

        deserializer.deserialize_any(NumberOrRange)
    }
}
