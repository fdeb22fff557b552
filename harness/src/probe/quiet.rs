//! Waits until no packet is in flight.

use super::ProbeError;

/// Barrier frames that must pass without a packet at any tap. Between two taps lie at most three queues: a link, a bridge or
/// tunnel, a link.
const QUIET_MARKERS: u32 = 6;
/// Barrier frames that a flow may take altogether; only packets in an endless loop take more.
const MAX_MARKERS: u32 = 10_000;
/// Packets that taps may see meanwhile, with at most a batch of flows in flight.
pub(super) const MAX_PACKETS: usize = 100_000;

/// Calls a function that passes a barrier frame and reads the taps, until it has seen no packet for as long as one can stay
/// unseen. The function returns the number of packets it saw.
///
/// # Errors
///
/// [`ProbeError::Endless`] where packets keep arriving, and those of the function.
pub(super) fn until_quiet(mut pass_and_look: impl FnMut() -> Result<usize, ProbeError>) -> Result<(), ProbeError> {
    let (mut quiet, mut packets) = (0, 0);
    for _ in 0..MAX_MARKERS {
        let seen = pass_and_look()?;
        packets += seen;
        quiet = if seen > 0 { 0 } else { quiet + 1 };
        if quiet == QUIET_MARKERS {
            return Ok(());
        }
        if packets > MAX_PACKETS {
            break;
        }
    }
    Err(ProbeError::Endless)
}
