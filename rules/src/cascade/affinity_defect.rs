//! Defects of session affinity.

use std::fmt;
use std::net::IpAddr;

/// A reason why returning clients do not get their endpoint, or get another client's.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AffinityDefect {
    /// Returning clients are sent to an endpoint that no new client gets.
    ReturningClientsOnly {
        /// The endpoint.
        endpoint: String,
    },
    /// No rule looks up the clients of this endpoint, although they are recorded or other endpoints have affinity: their connections are
    /// balanced again.
    NoAffinity {
        /// The endpoint.
        endpoint: String,
        /// Whether no endpoint of the service has affinity.
        is_of_all: bool,
    },
    /// No rule records the clients of this endpoint, so they are not recognised when they return.
    NotRemembered {
        /// The endpoint.
        endpoint: String,
    },
    /// Clients of this endpoint are added to a list whose clients are sent to another one.
    Crossed {
        /// The endpoint.
        endpoint: String,
        /// The list.
        list: String,
        /// The other endpoint.
        other: String,
    },
    /// A rule of the group adds all clients, whatever endpoint they get, to a list whose clients are sent to one endpoint.
    SetByAll {
        /// The list.
        list: String,
        /// The endpoint.
        endpoint: String,
    },
    /// Clients of this endpoint are added to a different list than the one that is looked up.
    ListMismatch {
        /// The endpoint.
        endpoint: String,
        /// The list that they are added to.
        noted: String,
        /// The list that is looked up.
        asked: String,
    },
    /// Clients of this endpoint are added under one key and looked up under another.
    KeyMismatch {
        /// The endpoint.
        endpoint: String,
    },
    /// Clients are looked up by destination address, which all of them share.
    Destination {
        /// The endpoint that they are sent to.
        endpoint: String,
    },
    /// Clients are looked up under a mask, so clients with the same prefix are confused.
    Mask {
        /// The endpoint that they are sent to.
        endpoint: String,
        /// The mask.
        mask: IpAddr,
    },
    /// The set is smaller than kube-proxy's: clients that do not fit are balanced again.
    Size {
        /// The endpoint whose clients it remembers.
        endpoint: String,
        /// The size of the set.
        size: u32,
    },
    /// Clients of this endpoint have a different timeout than those of most endpoints.
    Time {
        /// The endpoint.
        endpoint: String,
        /// The timeout in seconds; `None` for no timeout.
        seconds: Option<u32>,
        /// The timeout of most endpoints.
        usual: Option<u32>,
    },
}

impl AffinityDefect {
    /// Returns a stable identifier for programs.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::ReturningClientsOnly { .. } => "affinity-old-clients-only",
            Self::NoAffinity { .. } => "affinity-missing",
            Self::NotRemembered { .. } => "affinity-not-remembered",
            Self::Crossed { .. } => "affinity-crossed",
            Self::SetByAll { .. } => "affinity-set-by-all",
            Self::ListMismatch { .. } => "affinity-list-mismatch",
            Self::KeyMismatch { .. } => "affinity-key-mismatch",
            Self::Destination { .. } => "affinity-destination",
            Self::Mask { .. } => "affinity-mask",
            Self::Size { .. } => "affinity-size",
            Self::Time { .. } => "affinity-timeout",
        }
    }

    /// Returns whether clients lose their endpoint because of this defect.
    pub(super) fn loses_clients(&self) -> bool {
        !matches!(self, Self::ReturningClientsOnly { .. } | Self::Time { .. })
    }

    /// Returns whether the defect is a missing rule, which an excerpt cannot prove.
    pub(super) fn is_absence(&self) -> bool {
        matches!(self, Self::ReturningClientsOnly { .. } | Self::NoAffinity { .. } | Self::NotRemembered { .. })
    }
}

impl fmt::Display for AffinityDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReturningClientsOnly { endpoint } => {
                write!(f, "returning clients go to {endpoint}, but no new client does")
            }
            Self::NoAffinity { endpoint, is_of_all: false } => {
                write!(f, "clients of {endpoint} do not stay there, though those of other endpoints do")
            }
            Self::NoAffinity { endpoint, is_of_all: true } => write!(
                f,
                "clients of {endpoint} do not stay there: they are remembered, but no rule looks them up before the random rules"
            ),
            Self::NotRemembered { endpoint } => {
                write!(f, "nothing remembers the clients of {endpoint}: their next connections are balanced again")
            }
            Self::Crossed { endpoint, list, other } => {
                write!(f, "clients of {endpoint} are added to list {list}, which leads to {other}")
            }
            Self::SetByAll { list, endpoint } => {
                write!(f, "remembers clients in list {list}, whatever endpoint they get: later they go to {endpoint}")
            }
            Self::ListMismatch { endpoint, noted, asked } => {
                write!(f, "clients of {endpoint} are added to list {noted}, but looked up in list {asked}")
            }
            Self::KeyMismatch { endpoint } => write!(
                f,
                "clients of {endpoint} are added under one address or mask and looked up under another, so they are not found"
            ),
            Self::Destination { endpoint } => write!(
                f,
                "looks up the destination address, not the client's: after one client of {endpoint}, all clients go there"
            ),
            Self::Mask { endpoint, mask } => {
                write!(f, "looks up clients under mask {mask}: others with the same prefix go to {endpoint} too")
            }
            Self::Size { endpoint, size } => write!(
                f,
                "the set with the clients of {endpoint} has room for {size}, not {USUAL_SIZE}: others are not remembered"
            ),
            Self::Time { endpoint, seconds, usual } => {
                write!(
                    f,
                    "clients of {endpoint} are remembered for {}, those of others for {}",
                    time(*seconds),
                    time(*usual)
                )
            }
        }
    }
}

/// The size that nft gives a dynamic set without `size`, as kube-proxy writes it.
pub(super) const USUAL_SIZE: u32 = 65535;

fn time(seconds: Option<u32>) -> String {
    seconds.map_or_else(|| "ever".to_owned(), |seconds| format!("{seconds} s"))
}
