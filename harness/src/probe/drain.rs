//! Waits until no packet is in flight.

use super::ProbeError;

/// The number of barrier frames that must pass without a packet at any tap. There are at most three queues between two taps: a link, a
/// bridge or tunnel, a link.
const QUIET_BARRIERS: u32 = 6;
/// The maximum number of barrier frames for a flow; only packets in an endless loop need more.
const MAX_BARRIERS: u32 = 10_000;
/// The maximum number of packets that taps may see in the meantime, with at most a batch of flows in flight.
pub(super) const MAX_PACKETS: usize = 100_000;

/// Calls a function that passes a barrier frame and reads the taps, until it has seen no packet for the longest time that a packet can stay
/// invisible. The function returns the number of packets it saw.
///
/// # Errors
///
/// [`ProbeError::Endless`] if packets keep arriving, and those of the function.
fn until_quiet(mut pass_and_look: impl FnMut() -> Result<usize, ProbeError>) -> Result<(), ProbeError> {
    let (mut quiet, mut packets) = (0, 0);
    for _ in 0..MAX_BARRIERS {
        let seen = pass_and_look()?;
        packets += seen;
        quiet = if seen > 0 { 0 } else { quiet + 1 };
        if quiet == QUIET_BARRIERS {
            return Ok(());
        }
        if packets > MAX_PACKETS {
            break;
        }
    }
    Err(ProbeError::Endless)
}

/// Like [`until_quiet`], but for links that may hold packets for a long time. The number of held packets is read first: a packet that
/// leaves a link after that is in a backlog and will be seen. So if none was held and none has been seen since, none is in flight. `held`
/// returns `None` if no link can hold packets.
pub(super) fn until_nothing_is_held(
    held: &dyn Fn() -> Result<Option<u64>, ProbeError>,
    mut pass_and_look: impl FnMut() -> Result<usize, ProbeError>,
) -> Result<(), ProbeError> {
    until_nothing_is_held_by(&mut (), |()| held(), |()| pass_and_look())
}

/// Like [`until_nothing_is_held`], with a value that both functions use.
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
            // The kernel's timers need the CPU.
            Some(_) => std::thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_goes_on_while_links_hold_packets_and_once_more_after_the_last_was_seen() {
        // Two packets wait, and leave their link one after the other between two calls.
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
                Ok(usize::from(looks == 3 * QUIET_BARRIERS + 1))
            },
        )
        .unwrap();
        assert_eq!(rounds, 5);
    }
}
