//! What logs of kube-proxy show of Services and their endpoints.

use serde_json::Value;

use super::format::logged;
use super::model::{Contents, Evidence};

/// The Services and EndpointSlices that logs of kube-proxy show.
pub(crate) fn logged_services(evidence: &Evidence) -> Vec<Value> {
    let lines = evidence.pieces.iter().flat_map(|piece| match &piece.contents {
        Contents::Log { services, .. } => services.as_slice(),
        _ => &[],
    });
    logged(lines.map(String::as_str))
}
