//! What can be wrong with the affinity of a service's clients.

use std::fmt;
use std::net::IpAddr;

/// A reason why clients do not stay with their endpoint, or not with their own.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AffinityDefect {
    /// Clients that were here before are led to an endpoint that new clients are not.
    ReturningClientsOnly {
        /// The endpoint.
        endpoint: String,
    },
    /// Clients of an endpoint are noted, or those of others stay there, but its own are balanced anew.
    NoAffinity {
        /// The endpoint.
        endpoint: String,
        /// Whether those of no endpoint stay.
        is_of_all: bool,
    },
    /// Nothing notes the clients of this endpoint, so that they are not known again.
    NotRemembered {
        /// The endpoint.
        endpoint: String,
    },
    /// Clients of this endpoint are noted in a list whose clients are led to another one.
    Crossed {
        /// The endpoint.
        endpoint: String,
        /// The list.
        list: String,
        /// The other endpoint.
        other: String,
    },
    /// A rule of the group notes clients, whatever endpoint they get, in a list whose clients are led to one.
    SetByAll {
        /// The list.
        list: String,
        /// The endpoint.
        endpoint: String,
    },
    /// Clients of this endpoint are noted in another list than the one that is looked up.
    ListMismatch {
        /// The endpoint.
        endpoint: String,
        /// Where they are noted.
        noted: String,
        /// Where they are looked for.
        asked: String,
    },
    /// Clients of this endpoint are noted by another part of their packets than they are looked for.
    KeyMismatch {
        /// The endpoint.
        endpoint: String,
    },
    /// Clients are looked for by their packets' destination, which all of them have in common.
    Destination {
        /// The endpoint that they are led to.
        endpoint: String,
    },
    /// Clients are looked for by a part of their address, which others have too.
    Mask {
        /// The endpoint that they are led to.
        endpoint: String,
        /// The part that counts.
        mask: IpAddr,
    },
    /// The set has room for fewer clients than kube-proxy gives it: those that it has no room for are balanced again.
    Size {
        /// The endpoint whose clients it remembers.
        endpoint: String,
        /// For how many clients it has room.
        size: u32,
    },
    /// Clients of this endpoint are remembered for another time than clients of most endpoints.
    Time {
        /// The endpoint.
        endpoint: String,
        /// For how many seconds; `None` for ever.
        seconds: Option<u32>,
        /// For how many those of most.
        usual: Option<u32>,
    },
}

impl AffinityDefect {
    /// A name for programs, which stays the same.
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

    /// Whether clients are not led back to their endpoint because of it, or not to their own.
    pub(super) fn loses_clients(&self) -> bool {
        !matches!(self, Self::ReturningClientsOnly { .. } | Self::Time { .. })
    }

    /// Whether it is a missing rule, which an excerpt cannot show.
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

/// For how many keys nft makes a dynamic set without `size`, as kube-proxy does.
pub(super) const USUAL_SIZE: u32 = 65535;

fn time(seconds: Option<u32>) -> String {
    seconds.map_or_else(|| "ever".to_owned(), |seconds| format!("{seconds} s"))
}
