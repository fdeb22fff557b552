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
fn until_quiet(mut pass_and_look: impl FnMut() -> Result<usize, ProbeError>) -> Result<(), ProbeError> {
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

/// The same where links may hold packets for long. Those that they hold are asked for first: what leaves a link after that is in a backlog,
/// and seen. So when none was held, and none has been seen since, none is in flight. `held` is `None` where no link holds any.
pub(super) fn until_nothing_is_held(
    held: &dyn Fn() -> Result<Option<u64>, ProbeError>,
    mut pass_and_look: impl FnMut() -> Result<usize, ProbeError>,
) -> Result<(), ProbeError> {
    until_nothing_is_held_by(&mut (), |()| held(), |()| pass_and_look())
}

/// Waits, with a value that both functions use.
pub(super) fn until_nothing_is_held_by<T>(
    all: &mut T,
    mut held: impl FnMut(&mut T) -> Result<Option<u64>, ProbeError>,
    mut pass_and_look: impl FnMut(&mut T) -> Result<usize, ProbeError>,
) -> Result<(), ProbeError> {
    loop {
        let waiting = held(all)?;
        let mut packets = 0;
        until_quiet(|| {
            let seen = pass_and_look(all)?;
            packets += seen;
            Ok(seen)
        })?;
        match waiting {
            None => return Ok(()),
            Some(0) if packets == 0 => return Ok(()),
            // A kernel's timers need the CPU.
            Some(_) => std::thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_goes_on_while_links_hold_packets_and_once_more_after_the_last_was_seen() {
        // Two packets wait, one after the other leaves its link between two looks.
        let mut held = [2, 1, 1, 0, 0].into_iter();
        let mut rounds = 0;
        let mut looks = 0;
        let mut state = ();
        until_nothing_is_held_by(
            &mut state,
            |()| {
                rounds += 1;
                Ok(Some(held.next().expect("it ends when nothing is held and nothing was seen")))
            },
            |()| {
                looks += 1;
                // The last packet is seen in the fourth round, after its link has said that it holds none.
                Ok(usize::from(looks == 3 * QUIET_MARKERS + 1))
            },
        )
        .unwrap();
        assert_eq!(rounds, 5);
    }
}
