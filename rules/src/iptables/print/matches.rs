//! Conditions as text.

use super::Printer;
use crate::digits;
use crate::iptables::matches::{
    AddressType, Masked, Match, Multiport, Physdev, PortRange, Ports, Recent, RecentAction, RouteType, Side, States,
    Statistic, TCP_FLAGS, TcpFlags,
};
use crate::iptables::values::Negatable;

impl Printer {
    pub(super) fn condition(&mut self, condition: &Match) {
        match condition {
            Match::Comment(text) => {
                self.push(" -m comment --comment ");
                self.quoted(text);
            }
            Match::Ports(ports) => self.ports(ports),
            Match::Mark(mark) => {
                self.push(" -m mark");
                self.mark(mark);
            }
            Match::Connmark(mark) => {
                self.push(" -m connmark");
                self.mark(mark);
            }
            Match::State { old_name, states } => {
                self.push(if *old_name { " -m state" } else { " -m conntrack" });
                self.option(if *old_name { " --state " } else { " --ctstate " }, states.negated);
                self.states(states.value);
            }
            Match::AddressType(types) => self.address_type(types),
            Match::Statistic(statistic) => self.statistic(statistic),
            Match::Recent(recent) => self.recent(recent),
            Match::Physdev(physdev) => self.physdev(physdev),
            Match::Multiport(ports) => self.multiport(ports),
            Match::Set(set) => {
                self.push(" -m set");
                self.option(" --match-set ", set.negated);
                self.push(&set.value.name);
                self.push(" ");
                self.push(&set.value.directions);
            }
            Match::Nfacct(name) => {
                // `iptables-save` has two blanks here.
                self.push(" -m nfacct --nfacct-name  ");
                self.quoted(name);
            }
            Match::Other(other) => {
                self.push(" -m ");
                self.other(other);
            }
        }
    }

    pub(super) fn other(&mut self, other: &crate::iptables::matches::Other) {
        self.push(&other.name);
        if !other.text.is_empty() {
            self.push(" ");
            self.push(&other.text);
        }
    }

    fn ports(&mut self, ports: &Ports) {
        self.push(" -m ");
        self.push(ports.protocol.as_str());
        for (name, range) in [(" --sport ", ports.source), (" --dport ", ports.destination)] {
            if let Some(range) = range {
                self.option(name, range.negated);
                self.port_range(range.value, ":");
            }
        }
        if let Some(flags) = ports.flags {
            self.option(" --tcp-flags ", flags.negated);
            let TcpFlags { mask, set } = flags.value;
            self.tcp_flags(mask);
            self.push(" ");
            self.tcp_flags(set);
        }
    }

    pub(super) fn port_range(&mut self, range: PortRange, separator: &str) {
        self.number(u64::from(range.first));
        if range.last != range.first {
            self.push(separator);
            self.number(u64::from(range.last));
        }
    }

    fn tcp_flags(&mut self, flags: u8) {
        let names = TCP_FLAGS.iter().filter(|(_, bit)| flags & bit != 0).map(|(name, _)| *name);
        self.list(names, "NONE");
    }

    fn states(&mut self, states: States) {
        let names = States::NAMES.iter().filter(|(_, state)| states.intersects(*state)).map(|(name, _)| *name);
        self.list(names, "");
    }

    fn list(&mut self, names: impl Iterator<Item = &'static str>, none: &str) {
        let start = self.text.len();
        for name in names {
            if self.text.len() > start {
                self.push(",");
            }
            self.push(name);
        }
        if self.text.len() == start {
            self.push(none);
        }
    }

    fn mark(&mut self, mark: &Negatable<Masked>) {
        self.option(" --mark ", mark.negated);
        self.hex(mark.value.value);
        if mark.value.mask != u32::MAX {
            self.push("/");
            self.hex(mark.value.mask);
        }
    }

    fn address_type(&mut self, types: &AddressType) {
        self.push(" -m addrtype");
        for (name, kind) in [(" --src-type ", types.source), (" --dst-type ", types.destination)] {
            let Some(kind) = kind else { continue };
            self.option(name, kind.negated);
            let shown = RouteType::NAMES.iter().find(|(_, other)| *other == kind.value);
            self.push(shown.map(|(name, _)| *name).unwrap_or_default());
        }
    }

    fn statistic(&mut self, statistic: &Statistic) {
        match statistic {
            Statistic::Random(probability) => {
                self.push(" -m statistic --mode random");
                self.option(" --probability ", probability.negated);
                self.fraction(probability.value.threshold());
            }
            Statistic::Nth { every, packet } => {
                self.push(" -m statistic --mode nth");
                self.option(" --every ", every.negated);
                self.number(u64::from(every.value));
                self.push(" --packet ");
                self.number(u64::from(*packet));
            }
        }
    }

    /// A threshold out of 2^31 with eleven digits, rounded to the nearest (`%.11f`).
    fn fraction(&mut self, threshold: u32) {
        const SCALE: u128 = 100_000_000_000;
        let scaled = u128::from(threshold) * SCALE;
        let half_even = {
            let (whole, rest) = (scaled >> 31, scaled & ((1 << 31) - 1));
            let half = 1_u128 << 30;
            whole + u128::from(rest > half || (rest == half && whole & 1 == 1))
        };
        self.push(if half_even == SCALE { "1." } else { "0." });
        // The leading digit keeps the zeros behind it.
        self.push(&digits::decimal((SCALE + half_even) as u64)[1..]);
    }

    fn recent(&mut self, recent: &Recent) {
        self.push(" -m recent");
        let action = match recent.action.value {
            RecentAction::Set => " --set",
            RecentAction::Check => " --rcheck",
            RecentAction::Update => " --update",
            RecentAction::Remove => " --remove",
        };
        self.option(action, recent.action.negated);
        if let Some(seconds) = recent.seconds {
            self.push(" --seconds ");
            self.number(u64::from(seconds));
        }
        if recent.reap {
            self.push(" --reap");
        }
        if let Some(count) = recent.hit_count {
            self.push(" --hitcount ");
            self.number(u64::from(count));
        }
        if recent.same_ttl {
            self.push(" --rttl");
        }
        self.push(" --name ");
        self.push(&recent.name);
        self.push(" --mask ");
        self.address(recent.mask);
        self.push(if recent.destination { " --rdest" } else { " --rsource" });
    }

    fn physdev(&mut self, physdev: &Physdev) {
        self.push(" -m physdev");
        let flag = |out: &mut Self, name: &str, given: Option<Negatable<()>>| {
            if let Some(given) = given {
                out.option(name, given.negated);
            }
        };
        flag(self, " --physdev-is-in", physdev.is_input);
        self.word(" --physdev-in ", physdev.input.as_ref());
        flag(self, " --physdev-is-out", physdev.is_output);
        self.word(" --physdev-out ", physdev.output.as_ref());
        flag(self, " --physdev-is-bridged", physdev.is_bridged);
    }

    fn multiport(&mut self, ports: &Multiport) {
        self.push(" -m multiport");
        let name = match ports.side {
            Side::Source => " --sports ",
            Side::Destination => " --dports ",
            Side::Either => " --ports ",
        };
        self.option(name, ports.ports.negated);
        for (index, range) in ports.ports.value.iter().enumerate() {
            if index > 0 {
                self.push(",");
            }
            self.port_range(*range, ":");
        }
    }
}
