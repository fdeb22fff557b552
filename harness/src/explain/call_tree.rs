//! The rules that a packet met at a hook, each behind the jump that led to it.

use svclab_rules::ruleset::Rule;
use svclab_rules::walk::{Evaluated, Share};

use super::model::{Line, Matched, Part};
use super::phrases::Words;
use super::{iptables, nftables};
use crate::predict::{MatchedRule, NextHook};

/// The rules that matter at a hook, and how many others were asked.
pub(super) struct CallTree {
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
pub(super) fn visits(met: &[MatchedRule<'_>], told: &[Option<bool>], share: &mut Share) -> CallTree {
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

/// Whether a rule ends the way through the chains that it is in.
fn ends(met: &MatchedRule<'_>) -> bool {
    matches!(met.did, Evaluated::Stop) || met.next_hook.is_end()
}

impl<'m> Builder<'m> {
    fn meet(&mut self, met: &'m MatchedRule<'_>, kernel: Option<bool>) {
        let chain = met.place.chain.as_str();
        while self.open.last().is_some_and(|open| open.chain != chain)
            && self.open.iter().any(|open| open.chain == chain)
        {
            self.close();
        }
        if self.open.last().is_none_or(|open| open.chain != chain) {
            self.close_all();
            self.open.push(Open { chain, last: 0, len: met.rule.chain_len(), jump: None });
        }
        let depth = self.open.len() - 1;
        let Some(here) = self.open.last_mut() else { return };
        let passed = met.place.number.saturating_sub(here.last + 1);
        // Behind what leads back no rule of the chain is asked.
        here.last = if met.next_hook == NextHook::Return { here.len } else { met.place.number };
        self.passed += passed;
        self.share = match met.did {
            Evaluated::Match(share) | Evaluated::PassByChance(share) => share.within(self.share),
            Evaluated::Perhaps | Evaluated::Stop => self.share,
        };
        self.lines.push(Line { kernel, ..line(met, depth, passed, self.share) });
        let jump = Some(self.lines.len() - 1);
        match met.next_hook {
            NextHook::Jump { chain, of } => self.open.push(Open { chain, last: 0, len: of, jump }),
            NextHook::Goto { chain, of } => {
                self.open.pop();
                self.open.push(Open { chain, last: 0, len: of, jump });
            }
            NextHook::Rule | NextHook::Return | NextHook::Accept | NextHook::End => {}
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

    fn finish(self) -> CallTree {
        CallTree { lines: self.lines, passed: self.passed }
    }
}

/// What is said of a rule that was met; `share` is that of the packets that it takes, of all.
fn words(met: &MatchedRule<'_>, share: Share) -> Words {
    match met.rule {
        Rule::Iptables { rule, chain } => iptables::words(rule, chain, met.place.number, share),
        Rule::Nftables { rule, table, .. } => nftables::words(met, rule, table, share),
    }
}

fn line(met: &MatchedRule<'_>, depth: usize, passed: usize, share: Share) -> Line {
    let MatchedRule { place, did, .. } = met;
    let Words { why, does, is_by_chance, sharing } = words(met, share);
    Line {
        depth,
        language: match met.rule {
            Rule::Iptables { .. } => "iptables",
            Rule::Nftables { .. } => "nftables",
        },
        table: place.table.clone(),
        chain: place.chain.clone(),
        number: place.number,
        of: met.rule.chain_len(),
        passed,
        text: place.text.clone(),
        matched: match did {
            Evaluated::Match(_) => Matched::Yes,
            Evaluated::PassByChance(_) => Matched::NotByChance,
            Evaluated::Perhaps => Matched::Perhaps,
            Evaluated::Stop => Matched::Unknown,
        },
        why,
        does: match did {
            Evaluated::PassByChance(_) => "not this one, which goes on with the next rule".to_owned(),
            _ => does,
        },
        chance: match did {
            Evaluated::Match(part) | Evaluated::PassByChance(part) if is_by_chance => Some(Part::from(*part)),
            _ => None,
        },
        kernel: None,
        note: match did {
            Evaluated::Match(_) => sharing,
            Evaluated::Stop => Some(
                "svclab does not know what this rule does, so nobody can say what becomes of the packet".to_owned(),
            ),
            _ => None,
        },
    }
}
