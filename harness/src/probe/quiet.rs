//! When nothing is under way any more.

use super::ProbeError;

/// How many markers must pass without a packet being seen. Between two places where packets are seen lie at most three
/// queues: a link, a bridge or tunnel, a link.
const QUIET_MARKERS: u32 = 6;
/// How many markers a flow may take altogether; only packets that circle for ever take more.
const MOST_MARKERS: u32 = 10_000;
/// And how many packets may be seen meanwhile, where at most a batch of flows is under way.
pub(super) const MOST_PACKETS: usize = 100_000;

/// Passes a marker and looks, again and again, until nothing was seen for as long as a packet can go unseen. The function does
/// both, and returns how many packets it saw.
///
/// # Errors
///
/// [`ProbeError::Endless`] where packets go on coming, and those of the function.
pub(super) fn until_quiet(mut pass_and_look: impl FnMut() -> Result<usize, ProbeError>) -> Result<(), ProbeError> {
    let (mut quiet, mut packets) = (0, 0);
    for _ in 0..MOST_MARKERS {
        let seen = pass_and_look()?;
        packets += seen;
        quiet = if seen > 0 { 0 } else { quiet + 1 };
        if quiet == QUIET_MARKERS {
            return Ok(());
        }
        if packets > MOST_PACKETS {
            break;
        }
    }
    Err(ProbeError::Endless)
}
