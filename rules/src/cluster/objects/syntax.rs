//! Syntax of names in the Kubernetes API.

use std::ops::RangeInclusive;

/// The API server's default `--service-node-port-range`.
pub const NODE_PORTS: RangeInclusive<u16> = 30000..=32767;

/// The syntax of a name (`k8s.io/apimachinery/pkg/util/validation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// Lower-case letters, digits and `-`; starts with a letter; at most 63 characters. Services.
    Dns1035Label,
    /// A label that may also start with a digit: namespaces, and ports of services.
    Dns1123Label,
    /// Labels joined with dots, at most 253 characters: nodes, pods, slices.
    Dns1123Subdomain,
    /// Lower-case letters, digits and single `-`, at least one letter, at most 15 characters. Container ports.
    PortName,
}

impl Syntax {
    /// Returns what is wrong with a name, as the rest of a sentence that starts with the name.
    pub(super) fn fault(self, text: &str) -> Option<String> {
        if text.is_empty() {
            return Some("is empty".to_owned());
        }
        let limit = self.limit();
        if text.len() > limit {
            return Some(format!("is longer than {limit} characters"));
        }
        let good = match self {
            Self::Dns1035Label => is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase()),
            Self::Dns1123Label => is_label(text),
            Self::Dns1123Subdomain => text.split('.').all(is_label),
            Self::PortName => is_label(text) && !text.contains("--") && text.contains(|c: char| c.is_ascii_lowercase()),
        };
        (!good).then(|| format!("is not a {}", self.title()))
    }

    /// Describes the syntax, as a sentence.
    pub(super) fn help(self) -> &'static str {
        match self {
            Self::Dns1035Label => {
                "Use at most 63 lower-case letters, digits and `-`; start with a letter, end with a letter or digit."
            }
            Self::Dns1123Label => {
                "Use at most 63 lower-case letters, digits and `-`; start and end with a letter or digit."
            }
            Self::Dns1123Subdomain => "Use labels of lower-case letters, digits and `-`, joined with dots.",
            Self::PortName => "Use at most 15 lower-case letters, digits and single `-`, at least one letter.",
        }
    }

    fn limit(self) -> usize {
        match self {
            Self::Dns1035Label | Self::Dns1123Label => 63,
            Self::Dns1123Subdomain => 253,
            Self::PortName => 15,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Dns1035Label => "DNS-1035 label",
            Self::Dns1123Label => "DNS-1123 label",
            Self::Dns1123Subdomain => "DNS-1123 subdomain",
            Self::PortName => "port name",
        }
    }
}

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::service(Syntax::Dns1035Label, "my-web2", None)]
    #[case::service_starts_with_digit(Syntax::Dns1035Label, "2web", Some("is not a DNS-1035 label"))]
    #[case::service_underscore(Syntax::Dns1035Label, "my_web", Some("is not a DNS-1035 label"))]
    #[case::namespace_starts_with_digit(Syntax::Dns1123Label, "2web", None)]
    #[case::ends_with_dash(Syntax::Dns1123Label, "web-", Some("is not a DNS-1123 label"))]
    #[case::empty(Syntax::Dns1123Label, "", Some("is empty"))]
    #[case::node(Syntax::Dns1123Subdomain, "ip-10-0-0-1.eu.internal", None)]
    #[case::empty_label(Syntax::Dns1123Subdomain, "a..b", Some("is not a DNS-1123 subdomain"))]
    #[case::port_without_letter(Syntax::PortName, "8080", Some("is not a port name"))]
    #[case::long_port(Syntax::PortName, "a-very-long-port", Some("is longer than 15 characters"))]
    fn names(#[case] syntax: Syntax, #[case] text: &str, #[case] fault: Option<&str>) {
        assert_eq!(syntax.fault(text).as_deref(), fault);
    }
}
