//! Names of chains that belong to a service port or an endpoint.
//!
//! kube-proxy hashes the purpose of a chain, so that names are short enough (28 characters) and stay the same from one sync to the next:
//! the first 16 characters of `base32(sha256(text))` follow the prefix (`portProtoHash` and `servicePortEndpointChainName` in kube-proxy's
//! `pkg/proxy/iptables/proxier.go`).

use std::fmt;

use data_encoding::BASE32;
use sha2::{Digest, Sha256};

use super::values::ChainName;
use crate::cluster::Protocol;

/// The kind of a chain with a hash in its name, as given by its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChainKind {
    /// `KUBE-SVC-`: balances connections among the endpoints of a service port.
    Service,
    /// `KUBE-SVL-`: the same, among those of the rules' own node.
    Local,
    /// `KUBE-XLB-`: external traffic of policy Local, and the node's own endpoints. Up to 1.23.
    ExternalLocal,
    /// `KUBE-EXT-`: external traffic. From 1.24 on.
    External,
    /// `KUBE-FW-`: the source ranges of a load balancer.
    Firewall,
    /// `KUBE-SEP-`: translates to one endpoint.
    Endpoint,
}

impl ChainKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Service, Self::Local, Self::ExternalLocal, Self::External, Self::Firewall, Self::Endpoint];

    /// Returns the name prefix of its chains.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Service => "KUBE-SVC-",
            Self::Local => "KUBE-SVL-",
            Self::ExternalLocal => "KUBE-XLB-",
            Self::External => "KUBE-EXT-",
            Self::Firewall => "KUBE-FW-",
            Self::Endpoint => "KUBE-SEP-",
        }
    }

    /// Returns the kind of a chain with this name, and the name after the prefix: a [`ChainHash`], unless the name was truncated or is
    /// another program's.
    pub fn of(chain: &str) -> Option<(Self, &str)> {
        Self::ALL.into_iter().find_map(|kind| Some((kind, chain.strip_prefix(kind.prefix())?)))
    }

    /// Returns whether a chain with this name is of this kind.
    pub fn is_of(self, chain: &str) -> bool {
        chain.starts_with(self.prefix())
    }

    /// Returns the hash in the name of a chain of this kind, or, in edited rules, the text in its place.
    pub fn hash(self, chain: &str) -> Option<ChainHash> {
        ChainHash::parse_edited(chain.strip_prefix(self.prefix())?)
    }
}

/// kube-proxy's chains without a hash in their names, and those of the kubelet that its rules jump to.
pub const FIXED_CHAINS: [&str; 9] = [
    "KUBE-SERVICES",
    "KUBE-EXTERNAL-SERVICES",
    "KUBE-NODEPORTS",
    "KUBE-POSTROUTING",
    "KUBE-FORWARD",
    "KUBE-FIREWALL",
    "KUBE-PROXY-FIREWALL",
    "KUBE-MARK-MASQ",
    "KUBE-MARK-DROP",
];

/// The part of a chain's name after the prefix: a hash or, in edited rules, what stands in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainHash([u8; MAX_LENGTH]);

/// The maximum length of a part after a prefix: the kernel's chain names have at most 28 characters, `KUBE-FW-` has eight.
const MAX_LENGTH: usize = 20;

impl ChainHash {
    /// Computes the hash of a service port, by kube-proxy's name `namespace/name:port`.
    pub fn for_service_port(name: &str, protocol: Protocol) -> Self {
        Self::of(&[name, protocol.as_str()])
    }

    /// Computes the hash of an endpoint of a service port; the endpoint is written as `10.244.1.2:8080` or `[fd00::2]:8080`.
    pub fn for_endpoint(name: &str, protocol: Protocol, endpoint: &str) -> Self {
        Self::of(&[name, protocol.as_str(), endpoint])
    }

    /// The length of a hash, in characters.
    pub(crate) const LENGTH: usize = 16;

    /// Parses a hash as written in a chain's name.
    pub fn parse(text: &str) -> Option<Self> {
        let base32 = |c: u8| matches!(c, b'A'..=b'Z' | b'2'..=b'7');
        Self::parse_edited(text).filter(|_| text.len() == Self::LENGTH && text.bytes().all(base32))
    }

    /// Parses what stands in place of a hash: people who report bugs shorten names of chains, or choose others, such as `KUBE-SEP-POD2`.
    pub fn parse_edited(text: &str) -> Option<Self> {
        let mut padded = [0; MAX_LENGTH];
        padded.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())).then_some(Self(padded))
    }

    fn of(parts: &[&str]) -> Self {
        let mut hasher = Sha256::new();
        parts.iter().for_each(|part| hasher.update(part));
        let digest = hasher.finalize();
        let mut text = [0; MAX_LENGTH];
        // Ten bytes are sixteen characters of five bits.
        BASE32.encode_mut(&digest[..10], &mut text[..Self::LENGTH]);
        Self(text)
    }

    /// Returns the name of the chain with this hash.
    pub(crate) fn chain(self, kind: ChainKind) -> ChainName {
        ChainName::joined(kind.prefix(), self.as_str())
    }

    /// Returns the characters.
    pub(crate) fn as_str(&self) -> &str {
        let length = self.0.iter().take_while(|byte| **byte != 0).count();
        // Only ASCII is parsed and computed.
        str::from_utf8(&self.0[..length]).unwrap_or_default()
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// From dumps of real clusters.
    #[rstest]
    #[case::coredns_metrics("kube-system/coredns:metrics", Protocol::Tcp, "KUBE-SVC-QKJQYQZXY3DRLPVB")]
    #[case::kubernetes("default/kubernetes:https", Protocol::Tcp, "KUBE-SVC-NPX46M4PTMTKRN6Y")]
    #[case::unnamed_port("default/nginx", Protocol::Tcp, "KUBE-SVC-2CMXP7HKUVJN7L6M")]
    #[case::dns("kube-system/kube-dns:dns", Protocol::Udp, "KUBE-SVC-TCOU7JCQXEZGVUNU")]
    fn service_ports(#[case] name: &str, #[case] protocol: Protocol, #[case] chain: &str) {
        assert_eq!(&*ChainHash::for_service_port(name, protocol).chain(ChainKind::Service), chain);
    }

    #[rstest]
    #[case("default/nginx", "10.244.2.2:80", "KUBE-SEP-HUXRPHBUO34UVPEF")]
    #[case("traefik-ns/traefik:keycloak", "10.42.2.245:8087", "KUBE-SEP-AFDBSPUPSG7DXKN6")]
    #[case("default/sleep:tcp-80-80-8r4el", "10.123.32.5:80", "KUBE-SEP-GZIIAEF444AZU3YY")]
    fn endpoints(#[case] name: &str, #[case] endpoint: &str, #[case] chain: &str) {
        assert_eq!(&*ChainHash::for_endpoint(name, Protocol::Tcp, endpoint).chain(ChainKind::Endpoint), chain);
    }
}
