//! What can be wrong with a cascade.

use std::fmt;

use crate::walk::Share;

/// Something wrong, with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Defect {
    /// The number of the rule in the chain, from 1; 0 stands for the chain as a whole.
    pub rule: usize,
    /// What it is.
    pub kind: Kind,
}

/// What is wrong, with what it does to shares. Shares are of all new connections.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// The probability is not one of as many as there are endpoints left.
    Probability {
        /// What is written.
        written: f64,
        /// What would be even.
        even: f64,
        /// Of how many endpoints the probability is one; `None` where it is of no whole number.
        of: Option<usize>,
        /// What the endpoint gets.
        share: Share,
    },
    /// The probabilities are those of an even cascade, but their rules stand in another order.
    Order {
        /// The least that an endpoint gets.
        least: Share,
        /// The most that an endpoint gets.
        most: Share,
    },
    /// By the probabilities before and behind it, rules are missing behind this one.
    Missing {
        /// How many.
        endpoints: usize,
        /// What the rule's own endpoint gets, and those that are missing would get.
        share: Share,
        /// What the next endpoint gets instead; `None` where none comes.
        next: Option<Share>,
    },
    /// Probabilities are even, but written with five digits, as releases up to 1.16 do: what is lost adds up.
    FiveDigits {
        /// How many rules have such a probability.
        rules: usize,
        /// How many of them have the same as the rule before: 1/320 and 1/319 are both 0.00313, and so on.
        alike: usize,
        /// The endpoint whose share is farthest from even.
        endpoint: String,
        /// By how much, relative to even.
        deviation: f64,
    },
    /// The endpoint has had a rule before.
    Duplicate {
        /// The endpoint.
        endpoint: String,
        /// The number of the first rule.
        first: usize,
        /// What its rules up to this one give it.
        share: Share,
    },
    /// No packet ever comes here: a rule before takes all that is left.
    Unreachable {
        /// The endpoint that gets nothing by this rule.
        endpoint: String,
    },
    /// The rule asks for more than chance, so that its share depends on the packet: it is counted as nothing.
    Conditional {
        /// The endpoint.
        endpoint: String,
    },
    /// The endpoint's chain translates to nowhere: connections come back from it and go on to the next rule.
    NoDestination {
        /// The chain.
        chain: String,
    },
    /// An endpoint of the service has a chain, but no rule leads there.
    Orphan {
        /// The endpoint.
        endpoint: String,
        /// Its chain.
        chain: String,
    },
    /// Clients that were here before are led to an endpoint that new clients are not.
    OldClientsOnly {
        /// The endpoint.
        endpoint: String,
    },
    /// Clients of other endpoints stay there, but those of this one are shared out anew.
    NoAffinity {
        /// The endpoint.
        endpoint: String,
    },
    /// A packet that no rule takes leaves the chain untranslated.
    FallsThrough {
        /// How much of all new connections.
        share: Share,
    },
    /// A rule that draws lots in a way that is not modelled: its shares are not known.
    NotModelled,
}

impl Kind {
    /// A name for programs, which stays the same.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Probability { .. } => "probability",
            Self::Order { .. } => "order",
            Self::Missing { .. } => "missing",
            Self::FiveDigits { .. } => "five-digits",
            Self::Duplicate { .. } => "duplicate",
            Self::Unreachable { .. } => "unreachable",
            Self::Conditional { .. } => "conditional",
            Self::NoDestination { .. } => "no-destination",
            Self::Orphan { .. } => "orphan",
            Self::OldClientsOnly { .. } => "old-clients-only",
            Self::NoAffinity { .. } => "no-affinity",
            Self::FallsThrough { .. } => "falls-through",
            Self::NotModelled => "not-modelled",
        }
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rule > 0 {
            write!(f, "rule {}: ", self.rule)?;
        }
        self.kind.fmt(f)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probability { written, even, of, share } => {
                let of = of.map(|of| format!(", one in {of},")).unwrap_or_default();
                write!(
                    f,
                    "probability {written:.11}{of} where {even:.11} would be even: its endpoint gets {share} of all"
                )
            }
            Self::Order { least, most } => write!(
                f,
                "the probabilities are those of an even cascade, but in another order: endpoints get from {least} to \
                 {most} of all"
            ),
            Self::Missing { endpoints, share, next } => missing(f, *endpoints, *share, *next),
            Self::FiveDigits { rules, alike, endpoint, deviation } => {
                five_digits(f, *rules, *alike, endpoint, *deviation)
            }
            Self::Duplicate { endpoint, first, share } => {
                write!(f, "{endpoint} has rule {first} already, and a share by each: {share} of all")
            }
            Self::Unreachable { endpoint } => {
                write!(f, "nothing is left for {endpoint}: a rule before it takes everything")
            }
            Self::Conditional { endpoint } => write!(
                f,
                "asks for more than chance, so that {endpoint} gets a share of some packets only: counted as nothing"
            ),
            Self::NoDestination { chain } => {
                write!(
                    f,
                    "{chain} translates to no address, so that connections go on behind the rule: it takes nothing"
                )
            }
            Self::Orphan { endpoint, chain } => {
                write!(f, "{endpoint} has a chain, {chain}, but no rule leads there: it gets nothing")
            }
            Self::OldClientsOnly { endpoint } => {
                write!(f, "clients that were here before are led to {endpoint}, but no new client is")
            }
            Self::NoAffinity { endpoint } => {
                write!(f, "clients of {endpoint} do not stay there, though those of other endpoints do")
            }
            Self::FallsThrough { share } => write!(f, "{share} of new connections are left to no endpoint"),
            Self::NotModelled => write!(f, "draws lots in a way that is not modelled: its shares are not known"),
        }
    }
}

fn missing(f: &mut fmt::Formatter<'_>, endpoints: usize, share: Share, next: Option<Share>) -> fmt::Result {
    let what = if endpoints == 1 { "1 rule is".to_owned() } else { format!("{endpoints} rules are") };
    write!(f, "by its probability {what} missing behind it: its endpoint gets {share} of all, ")?;
    match next {
        Some(next) => write!(f, "each of those behind {next}"),
        None => write!(f, "and what is left goes to no endpoint"),
    }
}

fn five_digits(f: &mut fmt::Formatter<'_>, rules: usize, alike: usize, endpoint: &str, deviation: f64) -> fmt::Result {
    let percent = deviation * 100.0;
    let (have, what) = if rules == 1 { ("1 probability has", "it") } else { ("probabilities have", "them") };
    if rules > 1 {
        write!(f, "{rules} ")?;
    }
    write!(f, "{have} five digits only, as kube-proxy up to 1.16 writes {what}: {endpoint} is {percent:+.4} % off")?;
    if alike > 0 {
        write!(f, "; {alike} of them cannot be told from the one before")?;
    }
    Ok(())
}
