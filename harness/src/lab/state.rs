//! A snapshot of a lab: rules with their counters, connections, addresses, routes.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use svclab_rules::cluster::Family;

use super::{Lab, LabError, programs};

/// The output of a program in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listing {
    /// The namespace: `node/worker`.
    pub(crate) netns: String,
    /// The kind of listing: `iptables`, `nft`, `conntrack`, ...
    pub(crate) what: Cow<'static, str>,
    /// The program's output, or why it failed.
    pub(crate) text: String,
}

impl Lab {
    /// Lists the rules with their counters, connections, addresses, routes and neighbours of every namespace that has rules, as the
    /// programs print them. If a program fails, its error takes the place of its output.
    pub(crate) fn state(&self, ruled: &[&str]) -> Vec<Listing> {
        let (ipv4, ipv6) = (self.backend.saver(Family::Ipv4), self.backend.saver(Family::Ipv6));
        let calls: [(&'static str, &str, &[&str]); 8] = [
            ("iptables", ipv4, &["-c"]),
            ("ip6tables", ipv6, &["-c"]),
            ("nft", "nft", &["list", "ruleset"]),
            ("conntrack", "conntrack", &["-L", "-o", "extended"]),
            ("addresses", "ip", &["address", "show"]),
            ("routes", "ip", &["-4", "route", "show", "table", "all"]),
            ("routes6", "ip", &["-6", "route", "show", "table", "all"]),
            ("neighbours", "ip", &["neighbour", "show"]),
        ];
        let namespaces = self.namespaces.iter().filter(|namespace| ruled.contains(&namespace.name()));
        let list = |namespace| {
            calls.map(|(what, program, arguments)| {
                let printed: Result<String, LabError> = programs::listing(namespace, program, arguments);
                let text = printed.unwrap_or_else(|error| format!("# {error}\n"));
                Listing { netns: namespace.name().to_owned(), what: Cow::Borrowed(what), text }
            })
        };
        namespaces.flat_map(list).collect()
    }
}
