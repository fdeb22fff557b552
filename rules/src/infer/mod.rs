//! What rules show of the cluster that they were written for.
//!
//! Rules are read backwards: from what kube-proxy wrote to the Services, endpoints and settings that it wrote it for. What a rule
//! does not say stays unknown: the names of pods, the nodes of endpoints but for traffic policy Local, endpoints that get no
//! traffic, and in nftables mode which addresses are those of a load balancer, unless sources are checked before them.
//!
//! The modules `iptables` and `nftables` read the rules of a mode into the `model`: `endpoints` from the chains of service ports, `unreferenced_endpoints` from
//! endpoints' chains that no rule leads to.

mod endpoints;
mod iptables;
mod model;
mod nftables;
#[cfg(test)]
mod tests;
mod unreferenced_endpoints;

pub use self::model::{Inferred, InferredPort, InferredProxy};

/// Rules of a mode that show something.
pub trait Show {
    /// What they show. There are no ports where they are not kube-proxy's.
    fn show(&self) -> Inferred;
}

impl Show for crate::iptables::RuleSet {
    fn show(&self) -> Inferred {
        iptables::read(self)
    }
}

impl Show for crate::ruleset::Rules {
    fn show(&self) -> Inferred {
        match self {
            Self::Iptables(parsed) => parsed.rules.show(),
            Self::Nftables(parsed) => parsed.rules.show(),
            Self::OtherTables(_) => Inferred::default(),
        }
    }
}

impl Show for crate::nftables::Ruleset {
    fn show(&self) -> Inferred {
        Inferred::joined(self.tables.iter().map(nftables::read))
    }
}
