//! Errors that end a scenario early.

use std::io;
use std::path::PathBuf;

use crate::lab::LabError;
use crate::predict::PredictError;
use crate::probe::ProbeError;
use crate::proxy::ProxyError;
use crate::report::{Cause, Trouble};
use crate::scenario::{MAX_FLOWS, Span};
use crate::stats::StatsError;
use crate::text::{grouped, printable, reason};
use svclab_rules::ruleset::Unsupported;

/// An error that ends a scenario early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The rules cannot be generated.
    #[error(transparent)]
    Documents(#[from] Unsupported),
    /// The lab failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A program under test failed.
    #[error(transparent)]
    Proxy(Box<ProxyError>),
    /// Probes cannot be sent: the lab's sockets failed.
    #[error(transparent)]
    Prober(ProbeError),
    /// A probe could not be sent.
    #[error("{source}")]
    Probe {
        /// The probe's place in the scenario.
        span: Span,
        /// The reason.
        source: Box<ProbeError>,
    },
    /// The number of flows for a balance test cannot be determined.
    #[error("{source}")]
    Flows {
        /// The probe's place in the scenario.
        span: Span,
        /// The reason.
        source: StatsError,
    },
    /// A balance test needs more flows than one probe may have.
    #[error("the balance test needs {} flows, but a probe may have at most {}", grouped(*needed), grouped(MAX_FLOWS))]
    TooManyFlows {
        /// The probe's place in the scenario.
        span: Span,
        /// The number of flows that it needs.
        needed: u64,
    },
    /// A capture or an artifact could not be written.
    #[error("writing {}: {}", printable(file), reason(source))]
    Pcap {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Rules cannot be walked.
    #[error(transparent)]
    Unwalkable(Box<PredictError>),
    /// svclab itself failed.
    #[error("svclab itself failed: {0}")]
    Panic(String),
}

impl From<ProbeError> for RunError {
    fn from(error: ProbeError) -> Self {
        Self::Prober(error)
    }
}

impl From<PredictError> for RunError {
    fn from(error: PredictError) -> Self {
        Self::Unwalkable(Box::new(error))
    }
}

impl From<ProxyError> for RunError {
    fn from(error: ProxyError) -> Self {
        match error {
            ProxyError::Lab(error) => Self::Lab(error),
            ProxyError::Documents(error) => Self::Documents(error),
            error => Self::Proxy(Box::new(error)),
        }
    }
}

impl RunError {
    /// Whether the error concerns a single probe, so that other tests can continue.
    pub(super) fn is_about_one_probe(&self) -> bool {
        matches!(self, Self::Probe { .. } | Self::Flows { .. } | Self::TooManyFlows { .. })
    }

    /// Converts the error for reports.
    pub(crate) fn into_trouble(self) -> Trouble {
        let message = match &self {
            Self::Lab(LabError::Rules { rule: Some(rule), .. }) => format!("{self}\n{rule}"),
            _ => self.to_string(),
        };
        let (cause, help, span) = match self {
            Self::Documents(_) => (Cause::Input, None, None),
            Self::Lab(error) => (lab_cause(&error), Some(error.help().to_owned()), error.span().cloned()),
            Self::Proxy(error) => {
                let is_internal = matches!(*error, ProxyError::Api(_) | ProxyError::Unreadable { .. });
                let cause = if is_internal { Cause::Internal } else { Cause::Environment };
                (cause, Some(error.help().to_owned()), None)
            }
            Self::Prober(source) => {
                let (cause, help) = probe_cause(&source);
                (cause, help, None)
            }
            Self::Probe { span, source } => {
                let (cause, help) = probe_cause(&source);
                (cause, help, Some(span))
            }
            Self::Flows { span, .. } => (Cause::Input, None, Some(span)),
            Self::TooManyFlows { span, .. } => {
                let help = "Set a number of flows instead of `auto`; the report states the smallest bias that this number can detect.";
                (Cause::Input, Some(help.to_owned()), Some(span))
            }
            Self::Unwalkable(_) => (Cause::Input, None, None),
            Self::Pcap { .. } => {
                let help = "Pass a writable folder to --pcap and --artifacts.";
                (Cause::Environment, Some(help.to_owned()), None)
            }
            Self::Panic(_) => {
                let help = "This is a bug in svclab: please report it with the scenario.";
                (Cause::Internal, Some(help.to_owned()), None)
            }
        };
        Trouble { cause, message, help, span }
    }
}

/// The cause of a probe that could not be sent, and the fix.
fn probe_cause(error: &ProbeError) -> (Cause, Option<String>) {
    match error {
        ProbeError::Lab(error) => (lab_cause(error), Some(error.help().to_owned())),
        ProbeError::NoPort => (Cause::Internal, None),
        ProbeError::Miscounted(_) => {
            let help = "Run it again: svclab counted wrongly, or something else sent packets in the lab. The expectation was not judged.";
            (Cause::Internal, Some(help.to_owned()))
        }
        ProbeError::NoSender(_) | ProbeError::NoAddress(_) | ProbeError::NotHanded => (Cause::Input, None),
        ProbeError::Overrun { .. } => {
            let help = "Look for rules that duplicate packets or send them in a loop. If there are none, run svclab with sudo, or allow \
                        larger buffers: \
                        `sudo sysctl -w net.core.rmem_max=4194304`.";
            (Cause::Environment, Some(help.to_owned()))
        }
        ProbeError::Starved { .. } => {
            let help =
                "The machine is too busy for this rate: lower `rate`, or run fewer labs in parallel (`--jobs 1`).";
            (Cause::Environment, Some(help.to_owned()))
        }
        ProbeError::TimedOut(_) => {
            let help = "Give it more time with --timeout, or let it send fewer flows.";
            (Cause::Environment, Some(help.to_owned()))
        }
        ProbeError::Interrupted => (Cause::Environment, None),
        ProbeError::Endless => {
            let help = "Look for a route or a rule that sends packets in a loop.";
            (Cause::Input, Some(help.to_owned()))
        }
    }
}

/// If the kernel rejects content of the scenario itself, that is an input error; every other failure is the environment's.
fn lab_cause(error: &LabError) -> Cause {
    match error {
        LabError::Unknown { .. } | LabError::Unwritable { .. } => Cause::Internal,
        _ if error.is_about_scenario() => Cause::Input,
        _ => Cause::Environment,
    }
}
