//! Names of chains and sets.
//!
//! nft allows 255 characters, so kube-proxy writes the service port and the endpoint into names: `service-ULMVA6XW-ns1/svc1/tcp/p80`,
//! `endpoint-5OJB2KTY-ns1/svc1/tcp/p80__10.180.0.1/80`. The hash covers what follows it, and keeps truncated names distinct
//! (`hashAndTruncate` in kube-proxy's `pkg/proxy/nftables/proxier.go`).

use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

use data_encoding::BASE32;
use sha2::{Digest, Sha256};

use crate::cluster::Protocol;
use crate::selection::ServicePortView;

/// A name of a table, set, map or chain, at most 255 characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl Name {
    /// Parses a reference to a set or map: `@name`.
    pub(super) fn from_reference(word: &str) -> Option<Self> {
        word.strip_prefix('@').map(Self::from)
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// The part of a name after its prefix: eight characters of a hash, and the hashed text, truncated to 240 characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NameBase(String);

impl NameBase {
    /// The maximum length of a base: 256 characters minus the longest prefix.
    const LONGEST: usize = 240;

    /// Returns the base for a service port.
    pub(super) fn for_service_port(view: &ServicePortView<'_>) -> Self {
        Self::of(&service_port(view))
    }

    /// Returns the base for an endpoint of a service port. Colons of addresses become dots, because names cannot contain colons.
    pub(super) fn for_endpoint(view: &ServicePortView<'_>, endpoint: SocketAddr) -> Self {
        let address = endpoint.ip().to_string().replace(':', ".");
        Self::of(&format!("{}__{address}/{}", service_port(view), endpoint.port()))
    }

    /// Returns the base for a text: `ns1/svc1/tcp/p80`.
    pub(super) fn of(text: &str) -> Self {
        let mut base = format!("{}-{text}", name_hash(text));
        if base.len() > Self::LONGEST {
            base.truncate(Self::LONGEST - 3);
            base.push_str("...");
        }
        Self(base)
    }

    /// Returns the name with a prefix, such as `service-`.
    pub(super) fn with(&self, prefix: &str) -> Name {
        Name::from(format!("{prefix}{}", self.0))
    }
}

/// Returns the eight characters of the hash in a name: `ULMVA6XW` for `ns1/svc1/tcp/p80`.
pub fn name_hash(text: &str) -> String {
    BASE32.encode(&Sha256::digest(text)[..5])
}

/// Returns the base of a service port's chain names, from the port's name as in comments (`ns1/svc1:p80`, without the colon if the port has
/// no name).
pub(crate) fn base_of_comment(comment: &str, protocol: Protocol) -> String {
    let (service, port) = comment.split_once(':').unwrap_or((comment, ""));
    NameBase::of(&format!("{service}/{protocol}/{port}")).0
}

/// The same from the part after `endpoint-`; nothing if that was truncated.
pub(crate) fn base_of_endpoint(base: &str) -> Option<String> {
    let (_, hashed) = base.split_once('-')?;
    Some(NameBase::of(hashed.split_once("__")?.0).0)
}

/// Returns the service port of a base as comments write it.
pub(crate) fn comment_of_base(base: &str) -> Option<String> {
    let mut parts = base.split_once('-')?.1.split('/');
    let (namespace, name, _, port) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    Some(if port.is_empty() { format!("{namespace}/{name}") } else { format!("{namespace}/{name}:{port}") })
}

fn service_port(view: &ServicePortView<'_>) -> String {
    let name = &view.service.name;
    format!("{}/{}/{}/{}", name.namespace, name.name, view.port.protocol, view.port.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_of_what_follows() {
        assert_eq!(NameBase::of("ns1/svc1/tcp/p80").with("service-").to_string(), "service-ULMVA6XW-ns1/svc1/tcp/p80");
    }

    #[test]
    fn bases_are_found_by_comments_and_endpoints() {
        let base = "ULMVA6XW-ns1/svc1/tcp/p80";
        assert_eq!(base_of_comment("ns1/svc1:p80", Protocol::Tcp), base);
        assert_eq!(base_of_endpoint("5OJB2KTY-ns1/svc1/tcp/p80__10.180.0.1/80").as_deref(), Some(base));
        assert_eq!(comment_of_base(base).as_deref(), Some("ns1/svc1:p80"));
        assert_eq!(comment_of_base(&base_of_comment("ns1/svc1", Protocol::Udp)).as_deref(), Some("ns1/svc1"));
    }

    #[test]
    fn a_long_name_is_cut_off() {
        let (a, b) = (NameBase::of(&"x".repeat(300)), NameBase::of(&"x".repeat(301)));
        assert_eq!(a.0.len(), NameBase::LONGEST);
        assert!(a.0.ends_with("xxx..."));
        assert_ne!(a, b);
    }
}
