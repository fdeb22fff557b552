//! Narrowing of a set of packets to those that rules handle like one of them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use super::field::Field;
use super::forked_sources::ForkedSources;
use super::intervals::{Intervals, overlapping};
use super::packet::{Packet, SOURCE_PORT_CLASSES};
use super::region::Region;
use super::trace::{Path, Step, Then, Trace};

/// The set of packets that a witness represents, while the witness is walked. Clones share it, so all branches of a walk, and walks
/// through several rule sets, narrow the same set.
///
/// A field counts as original as long as its value is unchanged: a translated value is a constant of the rules, so comparisons with it do
/// not depend on which packet of the set is walked. If a constant happens to be equal, the set becomes smaller than necessary, never
/// larger.
#[derive(Debug, Clone)]
pub struct Narrowing {
    shared: Rc<RefCell<Shared>>,
    /// Whether the packet walked is a reply, whose source is the witness's destination.
    is_reply: bool,
}

#[derive(Debug)]
struct Shared {
    region: Region,
    witness: [u128; Field::ALL.len()],
    /// Whether the source is not from the region, as for a process whose source the kernel chooses.
    source_is_chosen: bool,
    names: Vec<Names>,
    /// Packets with another result: disjoint regions, also disjoint with the current one.
    rest: Vec<Region>,
    /// The sources in the region that were forked off in a random branch.
    forked: BTreeSet<u128>,
    forks_off: Option<Others>,
}

/// What happens to other sources if a random branch matches only the witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// They are left for later.
    Left,
    /// They are all forked off: each is matched in another branch.
    Forked,
}

/// The input or output interfaces of the packets of a region, by address.
#[derive(Debug, Clone)]
struct Names {
    field: Field,
    own: u128,
    of_addresses: Arc<[(u128, u128)]>,
}

impl Narrowing {
    /// Starts with all packets of a region and one of them.
    pub fn of(region: Region, witness: &Packet) -> Self {
        let witness = Field::ALL.map(|field| field.of(witness));
        let shared = Shared {
            region,
            witness,
            source_is_chosen: false,
            names: Vec::new(),
            rest: Vec::new(),
            forked: BTreeSet::new(),
            forks_off: None,
        };
        Self { shared: Rc::new(RefCell::new(shared)), is_reply: false }
    }

    /// Returns the narrowing for replies to the packet.
    #[must_use]
    pub fn for_replies(&self) -> Self {
        Self { shared: Rc::clone(&self.shared), is_reply: true }
    }

    /// Declares that sources are not those of the region: the sender's kernel chooses one, depending on fields that have been narrowed
    /// already.
    pub fn choose_source(&self) {
        self.shared.borrow_mut().source_is_chosen = true;
    }

    /// Makes a packet with this source the witness, and from now on forks off sources that only a random branch matches.
    ///
    /// There must not have been any comparison yet.
    pub fn fork_sources(&self, witness: u128, others: Others) {
        let mut shared = self.shared.borrow_mut();
        shared.witness[Field::Source as usize] = witness;
        shared.forks_off = Some(others);
    }

    /// Returns the forked sources that are still in the set.
    pub fn forked(&self) -> Vec<u128> {
        let shared = self.shared.borrow();
        let sources = &shared.region[Field::Source];
        shared.forked.iter().copied().filter(|source| sources.contains(*source)).collect()
    }

    /// Returns the current set without the forked sources.
    pub fn own_region(&self) -> Region {
        let region = self.region();
        let forked: Intervals = self.forked().into_iter().map(|source| (source, source)).collect();
        if forked.is_empty() { region } else { region.with(Field::Source, region[Field::Source].without(&forked)) }
    }

    /// Declares that packets of each address in a field have their own input or output interface, given as pairs of interface and address;
    /// the witness has `own`.
    pub fn name_interfaces(&self, field: Field, own: super::Interface, of_addresses: &Arc<[(u128, u128)]>) {
        let own = super::Interface::number(Some(own));
        self.shared.borrow_mut().names.push(Names { field, own, of_addresses: Arc::clone(of_addresses) });
    }

    /// Returns whether a field may have other values in other packets of the set.
    pub fn is_open(&self, field: Field, value: u128) -> bool {
        self.own(field, value).is_some()
    }

    /// Removes the packets for which a comparison of a field with some numbers has a different result than for the witness. Returns the
    /// result.
    pub fn ask(&self, field: Field, value: u128, among: &Intervals) -> bool {
        if let Some((field, added)) = self.own(field, value) {
            self.narrow(field, value, added, among);
        }
        among.contains(value)
    }

    /// As [`Self::ask`], for a list of ranges.
    pub(super) fn ask_ranges(&self, field: Field, value: u128, among: &[(u128, u128)]) -> bool {
        self.asked(field, value, || among.iter().copied().collect());
        among.iter().any(|(first, last)| (*first..=*last).contains(&value))
    }

    /// Removes the packets whose field has a different one of several sorted, disjoint keys than the witness, one region per key, and the
    /// packets with none of them.
    pub fn look_up(&self, field: Field, value: u128, keys: &[(u128, u128)]) {
        let Some((field, 0)) = self.own(field, value) else { return };
        let mut shared = self.shared.borrow_mut();
        let Shared { region, rest, .. } = &mut *shared;
        let numbers = region[field].clone();
        let (mut mine, mut last) = (None, None);
        for &(low, high) in numbers.ranges() {
            for key in overlapping(keys, low, high) {
                // Consecutive intervals may belong to one key.
                if last.replace(key) == Some(key) {
                    continue;
                }
                if (key.0..=key.1).contains(&value) {
                    mine = Some(*key);
                } else {
                    rest.push(region.among(field, &Intervals::between(key.0, key.1)));
                }
            }
        }
        let without_keys = || numbers.without_ranges(keys);
        match mine {
            Some((first, last)) => {
                let others = without_keys();
                if !others.is_empty() {
                    rest.push(region.with(field, others));
                }
                *region = region.among(field, &Intervals::between(first, last));
            }
            None => *region = region.with(field, without_keys()),
        }
    }

    /// As [`Self::look_up`] for sources, except for forked ones.
    pub fn look_up_own(&self, source: u128, keys: &[(u128, u128)]) {
        let forked: Intervals = self.forked().into_iter().map(|source| (source, source)).collect();
        self.shared.borrow_mut().region = self.own_region();
        self.look_up(Field::Source, source, keys);
        let mut shared = self.shared.borrow_mut();
        let sources = &shared.region[Field::Source];
        let all = sources.ranges().iter().chain(forked.ranges()).copied().collect();
        shared.region = shared.region.with(Field::Source, all);
    }

    /// Returns the sources that a comparison in a random branch forks off, if it is with a single source.
    fn forks_off(&self, value: u128, among: &Intervals) -> Option<ForkedSources> {
        let one = among.single()?;
        if self.is_reply || self.own(Field::Source, value) != Some((Field::Source, 0)) {
            return None;
        }
        let mut shared = self.shared.borrow_mut();
        let Shared { region, forked, forks_off, .. } = &mut *shared;
        let sources = &region[Field::Source];
        match (*forks_off)? {
            _ if one != value && sources.contains(one) => {
                forked.insert(one);
                Some(ForkedSources::One(one))
            }
            Others::Forked if one == value => {
                let all = sources.ranges().iter().flat_map(|(first, last)| *first..=*last);
                forked.extend(all.filter(|source| *source != value));
                Some(ForkedSources::Others)
            }
            _ => None,
        }
    }

    fn asked(&self, field: Field, value: u128, among: impl FnOnce() -> Intervals) {
        if let Some((field, added)) = self.own(field, value) {
            self.narrow(field, value, added, &among());
        }
    }

    /// Keeps the packets with the result of the witness, given its value in a field and the offset added to it.
    fn narrow(&self, field: Field, value: u128, added: u128, among: &Intervals) {
        let mut shared = self.shared.borrow_mut();
        if added == 0 {
            return shared.narrow(field, among);
        }
        // The kernel has chosen the port, from the class of the original one.
        let own = value.saturating_sub(added);
        let class = SOURCE_PORT_CLASSES.into_iter().map(|class| (u128::from(*class.start()), u128::from(*class.end())));
        let class: Intervals = class.filter(|(first, last)| (*first..=*last).contains(&own)).collect();
        shared.narrow(field, &class);
        let before = among.ranges().iter().map(|(first, last)| (first.saturating_sub(1), last.saturating_sub(1)));
        shared.narrow(field, &before.collect());
    }

    /// Returns the field of the witness with this value, and the offset added to it: a random source port is represented by the next one.
    /// `None` for a constant, or if only one number is left.
    fn own(&self, field: Field, value: u128) -> Option<(Field, u128)> {
        let field = if self.is_reply { field.turned() } else { field };
        let shared = self.shared.borrow();
        if shared.region[field].single().is_some() || field == Field::Source && shared.source_is_chosen {
            return None;
        }
        let own = shared.witness[field as usize];
        let added = value.checked_sub(own)?;
        (added == 0 || added == 1 && field == Field::SourcePort).then_some((field, added))
    }

    /// Returns the current set.
    pub fn region(&self) -> Region {
        self.shared.borrow().region.clone()
    }

    /// Returns the packets with another result since the last call.
    pub fn take_rest(&self) -> Vec<Region> {
        std::mem::take(&mut self.shared.borrow_mut().rest)
    }
}

impl Shared {
    /// Keeps the packets with the result of the witness.
    fn narrow(&mut self, field: Field, among: &Intervals) {
        let numbers = &self.region[field];
        let (inside, outside) = (numbers.and(among), numbers.without(among));
        if inside.is_empty() || outside.is_empty() {
            return;
        }
        let (own, other) =
            if inside.contains(self.witness[field as usize]) { (inside, outside) } else { (outside, inside) };
        self.rest.push(self.region.with(field, other));
        self.region = self.region.with(field, own);
    }
}

/// A trace that also narrows the set of packets, if there is one.
#[derive(Debug, Clone, Default)]
pub struct Narrowed {
    /// The matched rules.
    pub path: Path,
    /// The set.
    pub narrowing: Option<Narrowing>,
    /// The sources of the set that were forked off during the walk.
    pub forked: RefCell<Vec<ForkedSources>>,
    /// How many of them were already returned to the walk.
    taken: usize,
    stance: Stance,
}

/// Whether a walk forks off sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stance {
    #[default]
    Never,
    NotYet,
    Now,
}

impl Narrowed {
    /// Starts without matched rules.
    pub fn by(narrowing: Option<&Narrowing>) -> Self {
        Self { narrowing: narrowing.cloned(), ..Self::default() }
    }

    /// Returns the same path for another set.
    #[must_use]
    pub fn with(&self, narrowing: Option<&Narrowing>) -> Self {
        Self { path: self.path.clone(), ..Self::by(narrowing) }
    }

    /// Returns the same with forking of sources disabled.
    #[must_use]
    pub fn not_forking(self) -> Self {
        Self { stance: Stance::Never, ..self }
    }

    /// Returns the same with forking of sources enabled.
    #[must_use]
    pub fn forking(self) -> Self {
        let may = self.narrowing.as_ref().is_some_and(|narrowing| narrowing.shared.borrow().forks_off.is_some());
        Self { stance: if may { Stance::NotYet } else { Stance::Never }, ..self }
    }
}

impl Trace for Narrowed {
    fn step(&mut self, step: impl FnOnce() -> Step) {
        self.path.step(step);
    }

    fn then(&mut self, then: Then) {
        self.path.then(then);
    }

    fn asked(&self, field: Field, value: u128, among: impl FnOnce() -> Intervals) {
        let Some(narrowing) = &self.narrowing else { return };
        if self.stance != Stance::Now || field != Field::Source {
            return narrowing.asked(field, value, among);
        }
        let among = among();
        match narrowing.forks_off(value, &among) {
            Some(forked) => {
                let mut all = self.forked.borrow_mut();
                if !all.contains(&forked) {
                    all.push(forked);
                }
            }
            None => narrowing.asked(field, value, || among),
        }
    }

    fn may_fork(&mut self, is_decided: bool) -> bool {
        if self.stance != Stance::Never {
            self.stance = if is_decided { Stance::Now } else { Stance::NotYet };
        }
        self.stance == Stance::Now
    }

    fn take_forked(&mut self) -> Vec<ForkedSources> {
        let all = self.forked.get_mut();
        let new = all[self.taken..].to_vec();
        self.taken = all.len();
        new
    }

    fn alone(&self) -> Self {
        self.with(None)
    }

    fn looked_up<'k>(&self, field: Field, value: u128, keys: impl FnOnce() -> &'k [(u128, u128)]) {
        if let Some(narrowing) = self.narrowing.as_ref().filter(|narrowing| narrowing.own(field, value).is_some()) {
            narrowing.look_up(field, value, keys());
        }
    }

    fn asked_name(&self, name: u128, fits: impl Fn(u128) -> bool) {
        let Some(narrowing) = &self.narrowing else { return };
        let mut shared = narrowing.shared.borrow_mut();
        let own = fits(name);
        let named: Vec<Names> = shared.names.iter().filter(|names| names.own == name).cloned().collect();
        for Names { field, of_addresses, .. } in named {
            let alike = of_addresses.iter().filter(|(name, _)| fits(*name) == own);
            let among = alike.map(|(_, address)| (*address, *address)).collect();
            shared.narrow(field, &among);
        }
    }

    fn is_open(&self, field: Field, value: u128) -> bool {
        self.narrowing.as_ref().is_some_and(|narrowing| narrowing.is_open(field, value))
    }
}
