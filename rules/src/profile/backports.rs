//! Changes that came to older minor releases with a patch release.

/// A minor release, and the first patch release of it that has the change.
pub(super) type Backport = (u8, u8);

/// `KUBE-FIREWALL` drops what comes to 127.0.0.0/8 from elsewhere.
pub(super) const DROPS_EXTERNAL_LOCALNET: [Backport; 3] = [(16, 11), (17, 7), (18, 4)];
/// `KUBE-POSTROUTING` takes the mark away before it masquerades.
pub(super) const CLEARS_MARK: [Backport; 3] = [(16, 13), (17, 9), (18, 6)];
/// nftables filters follow the translation.
pub(super) const FILTERS_TRANSLATED: [Backport; 1] = [(33, 6)];
/// nftables compares interfaces by name.
pub(super) const INTERFACE_BY_NAME: [Backport; 2] = [(33, 6), (34, 2)];
/// The cleanup of connections compares ports; it has nothing to do with rules.
pub(super) const COMPARES_PORTS: [Backport; 1] = [(32, 3)];

/// The backports that change what rules are written.
pub(super) const OF_RULES: [&[Backport]; 4] =
    [&DROPS_EXTERNAL_LOCALNET, &CLEARS_MARK, &FILTERS_TRANSLATED, &INTERFACE_BY_NAME];
