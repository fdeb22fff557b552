//! Changes backported to patch releases of older minor releases.

/// A minor release, and its first patch release with the change.
pub(super) type Backport = (u8, u8);

/// `KUBE-FIREWALL` drops packets to 127.0.0.0/8 from other machines.
pub(super) const DROPS_EXTERNAL_LOCALNET: [Backport; 3] = [(16, 11), (17, 7), (18, 4)];
/// `KUBE-POSTROUTING` clears the mark before it masquerades.
pub(super) const CLEARS_MARK: [Backport; 3] = [(16, 13), (17, 9), (18, 6)];
/// nftables filter chains follow DNAT.
pub(super) const FILTERS_TRANSLATED: [Backport; 1] = [(33, 6)];
/// nftables rules compare interfaces by name.
pub(super) const INTERFACE_BY_NAME: [Backport; 2] = [(33, 6), (34, 2)];
/// The conntrack cleanup compares ports; it does not affect rules.
pub(super) const COMPARES_PORTS: [Backport; 1] = [(32, 3)];

/// The backports that change rules.
pub(super) const OF_RULES: [&[Backport]; 4] =
    [&DROPS_EXTERNAL_LOCALNET, &CLEARS_MARK, &FILTERS_TRANSLATED, &INTERFACE_BY_NAME];
