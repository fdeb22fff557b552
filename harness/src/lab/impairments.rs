//! Link impairments: queueing disciplines at both ends of links that lose, delay, duplicate or reorder packets, or limit their rate.

use nix::errno::Errno;
use rtnetlink::packet_core::DefaultNla;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};
use svclab_rules::cluster::{Impairment, Percentage};

use super::LabError;
use super::netlink::Netlink;
use crate::topology::Interface;

/// The queue limit of a link in packets: far more than are in flight at the same time.
const LIMIT: u32 = 100_000;
/// The minimum burst in bytes: one whole frame fits, whatever the rate.
const LEAST_BURST: u64 = 2_000;
/// The lowest timer frequency of kernels, in Hz: at each tick, everything due since the last one is sent at once.
const TICKS: u64 = 100;

/// TCA_OPTIONS of linux/rtnetlink.h.
const OPTIONS: u16 = 2;
/// TCA_NETEM_REORDER, TCA_NETEM_RATE, TCA_NETEM_RATE64, TCA_NETEM_LATENCY64 and TCA_NETEM_JITTER64 of linux/pkt_sched.h.
const REORDER: u16 = 3;
const RATE: u16 = 6;
const RATE64: u16 = 8;
const LATENCY64: u16 = 10;
const JITTER64: u16 = 11;
/// TCA_TBF_PARMS, TCA_TBF_RATE64 and TCA_TBF_BURST of linux/pkt_sched.h.
const TBF_PARAMETERS: u16 = 1;
const TBF_RATE64: u16 = 4;
const TBF_BURST: u16 = 6;
/// TC_LINKLAYER_ETHERNET: if it is unset, kernels read the rate table of old versions of tc, which is not sent.
const ETHERNET: u8 = 1;

/// The queueing discipline that a link's end needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Discipline {
    /// A token bucket, which only limits the rate. Nearly every kernel has it.
    Tbf,
    /// The network emulator, for all other impairments.
    Netem,
}

impl Discipline {
    fn of(impairment: Impairment) -> Self {
        let only_slow = Impairment { rate: impairment.rate, ..Impairment::default() };
        if impairment == only_slow { Self::Tbf } else { Self::Netem }
    }

    /// Its name in the kernel.
    fn name(self) -> &'static str {
        match self {
            Self::Tbf => "tbf",
            Self::Netem => "netem",
        }
    }

    /// The kernel module that implements it.
    fn module(self) -> &'static str {
        match self {
            Self::Tbf => "sch_tbf",
            Self::Netem => "sch_netem",
        }
    }
}

/// Replaces an interface's queueing discipline by the one that it needs.
///
/// # Errors
///
/// [`LabError::NoDiscipline`] with the module that the kernel lacks.
pub(super) async fn impair(netlink: &mut Netlink, interface: &Interface) -> Result<(), LabError> {
    // Send earlier requests first, so that their errors are reported as theirs.
    netlink.finish().await?;
    let impairment = interface.impairment;
    let operation = format!("setting the queueing discipline of {}", interface.name);
    if impairment == Impairment::default() {
        let root = discipline(interface, Vec::new());
        netlink.change(operation, RouteNetlinkMessage::DelQueueDiscipline(root)).await?;
        return netlink.finish().await;
    }
    let kind = Discipline::of(impairment);
    let attributes = vec![TcAttribute::Kind(kind.name().to_owned()), options(kind, impairment)];
    netlink.replace(operation, RouteNetlinkMessage::NewQueueDiscipline(discipline(interface, attributes))).await?;
    netlink.finish().await.map_err(|error| match error {
        // `qdisc_create`: no module has this kind.
        LabError::Netlink { netns, errno: Errno::ENOENT, .. } => {
            LabError::NoDiscipline { netns, module: kind.module() }
        }
        error => error,
    })
}

/// A message about the root queueing discipline of an interface.
pub(super) fn discipline(interface: &Interface, attributes: Vec<TcAttribute>) -> TcMessage {
    let mut message = TcMessage::default();
    message.header.index = i32::try_from(interface.index).unwrap_or_default();
    message.header.parent = TcHandle::ROOT;
    message.attributes = attributes;
    message
}

fn options(kind: Discipline, impairment: Impairment) -> TcAttribute {
    match kind {
        Discipline::Tbf => {
            let nested = token_bucket(impairment.rate.unwrap_or(u64::MAX));
            TcAttribute::Options(
                nested.into_iter().map(|(kind, value)| TcOption::Other(DefaultNla::new(kind, value))).collect(),
            )
        }
        Discipline::Netem => TcAttribute::Other(DefaultNla::new(OPTIONS, emulator(impairment))),
    }
}

/// `struct tc_tbf_qopt`, and attributes for what does not fit into it.
fn token_bucket(bits_per_second: u64) -> Vec<(u16, Vec<u8>)> {
    let rate = (bits_per_second / 8).max(1);
    let burst = (rate / TICKS).max(LEAST_BURST);
    let short = u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes();
    // `struct tc_ratespec`: cell_log, linklayer, overhead, cell_align, mpu, rate.
    let specification = [&[0, ETHERNET, 0, 0, 0, 0, 0, 0], short.as_slice()].concat();
    let peak = [0; 12];
    let bytes_that_wait = LIMIT.saturating_mul(1_500).to_ne_bytes();
    let [buffer, mtu] = [[0; 4]; 2];
    let parameters = [specification.as_slice(), &peak, &bytes_that_wait, &buffer, &mtu].concat();
    let burst = u32::try_from(burst).unwrap_or(u32::MAX).to_ne_bytes().to_vec();
    vec![(TBF_PARAMETERS, parameters), (TBF_BURST, burst), (TBF_RATE64, rate.to_ne_bytes().to_vec())]
}

/// `struct tc_netem_qopt`, then attributes.
fn emulator(impairment: Impairment) -> Vec<u8> {
    let Impairment { loss, delay, jitter, duplicate, reorder, rate } = impairment;
    // A gap of 1 makes every packet a candidate for reordering.
    let gap = u32::from(!reorder.is_zero());
    let [latency_in_ticks, jitter_in_ticks] = [0; 2];
    let parameters = [latency_in_ticks, LIMIT, part(loss), gap, part(duplicate), jitter_in_ticks];
    let mut bytes: Vec<u8> = parameters.into_iter().flat_map(u32::to_ne_bytes).collect();
    let nanoseconds =
        |time: std::time::Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX).to_ne_bytes().to_vec();
    let mut attributes = vec![(LATENCY64, nanoseconds(delay)), (JITTER64, nanoseconds(jitter))];
    if !reorder.is_zero() {
        let correlation = 0_u32;
        attributes.push((REORDER, [part(reorder), correlation].into_iter().flat_map(u32::to_ne_bytes).collect()));
    }
    if let Some(rate) = rate {
        let rate = (rate / 8).max(1);
        let short = u32::try_from(rate).unwrap_or(u32::MAX);
        // `struct tc_netem_rate`: rate, packet_overhead, cell_size, cell_overhead.
        attributes.push((RATE, [short, 0, 0, 0].into_iter().flat_map(u32::to_ne_bytes).collect()));
        if short == u32::MAX {
            attributes.push((RATE64, rate.to_ne_bytes().to_vec()));
        }
    }
    for (kind, value) in attributes {
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        bytes.extend([length.to_ne_bytes(), kind.to_ne_bytes()].concat());
        bytes.extend(value);
    }
    bytes
}

/// A probability as the kernel represents it: a fraction of 2^32 - 1.
fn part(percentage: Percentage) -> u32 {
    let all = u64::from(u32::MAX);
    u32::try_from(u64::from(percentage.millionths()) * all / 1_000_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn words(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect()
    }

    fn attribute(length: u16, kind: u16) -> u32 {
        let ([a, b], [c, d]) = (length.to_ne_bytes(), kind.to_ne_bytes());
        u32::from_ne_bytes([a, b, c, d])
    }

    fn percent(number: u32) -> Percentage {
        Percentage::from_millionths(number * 10_000).unwrap()
    }

    #[test]
    fn only_a_rate_needs_no_network_emulator() {
        let slow = Impairment { rate: Some(8_000), ..Impairment::default() };
        assert_eq!(Discipline::of(slow), Discipline::Tbf);
        assert_eq!(Discipline::of(Impairment { loss: percent(1), ..slow }), Discipline::Netem);
    }

    /// The expected values are those of `tc qdisc add dev eth0 root netem loss 50% delay 5ms 1ms duplicate 1% reorder 25% rate 8kbit limit
    /// 100000`.
    #[test]
    fn the_emulator_has_all_parameters() {
        let delay = Duration::from_millis(5);
        let jitter = Duration::from_millis(1);
        let impairment = Impairment {
            loss: percent(50),
            delay,
            jitter,
            duplicate: percent(1),
            reorder: percent(25),
            rate: Some(8_000),
        };
        let halves = |value: u64| {
            let bytes = value.to_ne_bytes();
            words(&bytes)
        };
        let mut expected = vec![0, 100_000, 0x7fff_ffff, 1, 42_949_672, 0];
        expected.push(attribute(12, 10));
        expected.extend(halves(5_000_000));
        expected.push(attribute(12, 11));
        expected.extend(halves(1_000_000));
        expected.extend([attribute(12, 3), 0x3fff_ffff, 0]);
        expected.extend([attribute(20, 6), 1_000, 0, 0, 0]);
        assert_eq!(words(&emulator(impairment)), expected);
    }

    #[test]
    fn a_token_bucket_sends_at_least_a_frame_at_once() {
        let parameters = token_bucket(80_000);
        assert_eq!(parameters.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [1, 6, 4]);
        assert_eq!(parameters[0].1.len(), 36, "struct tc_tbf_qopt");
        assert_eq!(words(&parameters[1].1), [2_000]);
        assert_eq!(u64::from_ne_bytes(parameters[2].1.as_slice().try_into().unwrap()), 10_000);
        assert_eq!(words(&token_bucket(80_000_000)[1].1), [100_000]);
    }
}
