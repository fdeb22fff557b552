//! Inference of a cluster from its rules.
//!
//! Rules are read backwards: from what kube-proxy wrote to the Services, endpoints and settings behind it. What rules do not contain stays
//! unknown: the names of pods, the nodes of endpoints except with traffic policy Local, endpoints that get no traffic, and in nftables mode
//! which addresses belong to a load balancer, unless they have a source-range check.
//!
//! The modules `iptables` and `nftables` read the rules of a mode into the `model`: `endpoints` from the chains of service ports,
//! `unreferenced_endpoints` from endpoint chains that no rule jumps to, `named_endpoints` from names;
//! `unreached_chains` finds those of load balancers that no rule leads to.

mod cluster_ips;
mod endpoints;
mod iptables;
mod joined;
mod model;
mod named_endpoints;
mod nftables;
#[cfg(test)]
mod tests;
mod unreached_chains;
mod unreferenced_endpoints;

pub use self::model::{Inferred, InferredPort, InferredProxy};
use crate::coverage::Coverage;
use crate::iptables::TableName;

/// Rules of a mode from which a cluster is inferred.
pub trait Infer {
    /// Infers service ports and settings. There are no ports if the rules are not kube-proxy's.
    fn infer(&self) -> Inferred;

    /// Infers the same from rules of which it is known whether they are shown whole: then an endpoint's chain that no rule jumps to has lost its
    /// rule.
    fn infer_covered(&self, _coverage: &Coverage) -> Inferred {
        self.infer()
    }
}

impl Infer for crate::iptables::RuleSet {
    fn infer(&self) -> Inferred {
        iptables::read(self, &|_| false)
    }

    fn infer_covered(&self, coverage: &Coverage) -> Inferred {
        iptables::read(self, &|chain| coverage.has_chain(TableName::Nat.as_str(), chain))
    }
}

impl Infer for crate::ruleset::Rules {
    fn infer(&self) -> Inferred {
        match self {
            Self::Iptables(parsed) => parsed.rules.infer(),
            Self::Nftables(parsed) => parsed.rules.infer(),
            Self::OtherTables(_) => Inferred::default(),
        }
    }

    fn infer_covered(&self, coverage: &Coverage) -> Inferred {
        match self {
            Self::Iptables(parsed) => parsed.rules.infer_covered(coverage),
            Self::Nftables(_) | Self::OtherTables(_) => self.infer(),
        }
    }
}

impl Infer for crate::nftables::Ruleset {
    fn infer(&self) -> Inferred {
        Inferred::joined(self.tables.iter().map(nftables::read))
    }
}
