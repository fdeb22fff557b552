//! Names of service ports, as comments of rules have them.

/// A service port's name without the colon in which that of an unnamed port ended up to 1.18: `default/web:`.
pub(super) fn port_name(commented: &str) -> &str {
    commented.strip_suffix(':').unwrap_or(commented)
}
