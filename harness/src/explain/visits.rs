//! The rules that a packet met at a hook, each behind the jump that led to it.

use svclab_rules::iptables::{Match, Rule, Statistic, Target};
use svclab_rules::walk::{Did, Share};

use super::model::{Line, Matched};
use super::{actions, conditions};
use crate::predict::Met;

/// The rules that matter at a hook, and how many others were asked.
pub(super) struct Visits {
    pub(super) lines: Vec<Line>,
    pub(super) passed: usize,
}

/// A chain that the packet is in.
struct Open<'m> {
    chain: &'m str,
    /// The last of its rules that was met.
    last: usize,
    /// How many it has.
    len: usize,
    /// The line of the jump into it.
    jump: Option<usize>,
}

/// Lines under construction.
struct Builder<'m> {
    lines: Vec<Line>,
    open: Vec<Open<'m>>,
    passed: usize,
    /// What is left of all such packets.
    share: Share,
}

/// Orders the rules met. `share` is that of the packets that come to the hook; it becomes that of those which leave. `told` is
/// whether the kernel met each of them, as far as that is known.
pub(super) fn visits(met: &[Met<'_>], told: &[Option<bool>], share: &mut Share) -> Visits {
    let mut builder = Builder { lines: Vec::new(), open: Vec::new(), passed: 0, share: *share };
    let mut table = "";
    for (position, one) in met.iter().enumerate() {
        if one.place.table != table {
            table = &one.place.table;
            builder.close_all();
        }
        builder.meet(one, told.get(position).copied().flatten());
    }
    // What ends a packet's way through a table leaves the rest of its chains unasked.
    let is_ended = met.last().is_some_and(|last| ends(last));
    if is_ended {
        builder.open.clear();
    }
    builder.close_all();
    *share = builder.share;
    builder.finish()
}

/// Whether a rule ends the way through its table.
fn ends(met: &Met<'_>) -> bool {
    let goes_on = matches!(
        met.rule.target,
        None | Some(
            Target::Jump(_)
                | Target::Goto(_)
                | Target::Return
                | Target::Mark(_)
                | Target::Trace
                | Target::NoTrack { .. }
                | Target::Other(_)
        )
    );
    matches!(met.did, Did::Stop) || matches!(met.did, Did::Match(_)) && !goes_on
}

impl<'m> Builder<'m> {
    fn meet(&mut self, met: &'m Met<'_>, kernel: Option<bool>) {
        let chain = met.place.chain.as_str();
        while self.open.last().is_some_and(|open| open.chain != chain)
            && self.open.iter().any(|open| open.chain == chain)
        {
            self.close();
        }
        if self.open.last().is_none_or(|open| open.chain != chain) {
            self.close_all();
            self.open.push(Open { chain, last: 0, len: met.chain.len(), jump: None });
        }
        let depth = self.open.len() - 1;
        let Some(here) = self.open.last_mut() else { return };
        let passed = met.place.number.saturating_sub(here.last + 1);
        // Behind a RETURN no rule of the chain is asked.
        let is_left = matches!((met.did, &met.rule.target), (Did::Match(_), Some(Target::Return)));
        here.last = if is_left { here.len } else { met.place.number };
        self.passed += passed;
        self.share = match met.did {
            Did::Match(share) | Did::PassByChance(share) => share.within(self.share),
            Did::Perhaps | Did::Stop => self.share,
        };
        self.lines.push(Line { kernel, ..line(met, depth, passed, self.share) });
        if let (Did::Match(_), Some(next), Some(rules)) = (met.did, met.rule.next_chain(), met.next) {
            let jump = Some(self.lines.len() - 1);
            if matches!(met.rule.target, Some(Target::Goto(_))) {
                self.open.pop();
            }
            self.open.push(Open { chain: next, last: 0, len: rules.len(), jump });
        }
        if ends(met) {
            self.open.clear();
        }
    }

    /// The end of a chain: the rest of its rules had nothing for the packet.
    fn close(&mut self) {
        let Some(open) = self.open.pop() else { return };
        self.passed += open.len - open.last;
        // A jump that led to nothing says nothing.
        let is_idle = |jump: &usize| jump + 1 == self.lines.len() && self.lines[*jump].kernel != Some(false);
        if let Some(jump) = open.jump.filter(is_idle) {
            self.lines.truncate(jump);
            self.passed += 1;
        }
    }

    fn close_all(&mut self) {
        while !self.open.is_empty() {
            self.close();
        }
    }

    fn finish(self) -> Visits {
        Visits { lines: self.lines, passed: self.passed }
    }
}

fn line(met: &Met<'_>, depth: usize, passed: usize, share: Share) -> Line {
    let Met { place, did, rule, chain, .. } = met;
    let probability = conditions::probability(rule);
    let sharing = Sharing::of(chain, place.number);
    let chance = match did {
        Did::Match(taken) if probability.is_some() => Some(*taken),
        Did::PassByChance(missed) => Some(*missed),
        _ => None,
    };
    Line {
        depth,
        table: place.table.clone(),
        chain: place.chain.clone(),
        number: place.number,
        of: chain.len(),
        passed,
        text: place.text.clone(),
        matched: match did {
            Did::Match(_) => Matched::Yes,
            Did::PassByChance(_) => Matched::NotByChance,
            Did::Perhaps => Matched::Perhaps,
            Did::Stop => Matched::Unknown,
        },
        why: why(rule, probability),
        does: match did {
            Did::PassByChance(_) => "not this one, which goes on with the next rule".to_owned(),
            _ => actions::words(rule),
        },
        chance: chance.map(Into::into),
        kernel: None,
        note: match did {
            Did::Match(_) => sharing.map(|sharing| sharing.sentence(share)),
            Did::Stop => Some(
                "svclab does not know what this rule does, so nobody can say what becomes of the packet".to_owned(),
            ),
            _ => None,
        },
    }
}

/// What a rule asks for, chance included.
fn why(rule: &Rule, probability: Option<f64>) -> String {
    let conditions = conditions::words(rule);
    match probability {
        Some(taken) => format!("{conditions}, by chance {:.2} % of those that come here", taken * 100.0),
        None => conditions,
    }
}

/// A chain whose rules share packets out: each takes some of what those before it left, the last takes the rest.
struct Sharing {
    /// How many rules share.
    among: usize,
    /// Which of them this is, from 1.
    position: usize,
}

impl Sharing {
    /// What a rule is in the sharing of its chain, where it is in it.
    fn of(chain: &[Rule], number: usize) -> Option<Self> {
        let by_chance =
            |rule: &Rule| rule.matches.iter().any(|one| matches!(one, Match::Statistic(Statistic::Random(_))));
        let first = chain.iter().position(by_chance)?;
        let chances = chain[first..].iter().take_while(|rule| by_chance(rule)).count();
        let has_last = chain.get(first + chances).is_some_and(|rule| rule.next_chain().is_some());
        let among = chances + usize::from(has_last);
        let position = number.checked_sub(first).filter(|position| (1..=among).contains(position))?;
        Some(Self { among, position })
    }

    /// What a reader needs to know of it.
    fn sentence(&self, share: Share) -> String {
        let Self { among, position } = *self;
        let (rest, takes) = match position {
            1 => ("all that come", format!("1/{among} of")),
            _ if position == among => ("what the rules before it left", "all of".to_owned()),
            _ => ("what the rules before it left", format!("1/{} of", among - position + 1)),
        };
        format!(
            "rule {position} of {among} that share packets out: to be even it has to take {takes} {rest}; so {share} of all goes this way"
        )
    }
}
