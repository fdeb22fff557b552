//! Orders the rules matched at a hook, each after the jump to its chain.

use svclab_rules::ruleset::Rule;
use svclab_rules::walk::{Evaluated, Share};

use super::model::{Matched, Proportion, RuleVisit};
use super::phrases::Words;
use super::{iptables, nftables};
use crate::predict::{MatchedRule, RuleExit};

/// The matching rules at a hook, and the number of rules without effect.
pub(super) struct CallTree {
    pub(super) lines: Vec<RuleVisit>,
    pub(super) without_effect: usize,
}

/// A chain that the packet is in.
struct Open<'m> {
    chain: &'m str,
    /// The last of its rules that was matched.
    last: usize,
    /// The number of its rules.
    len: usize,
    /// The line of the jump to it.
    jump: Option<usize>,
    /// Whether it is that of an endpoint, in which every packet should match a rule.
    is_endpoints: bool,
}

/// The text of a rule, by its table, its chain and its number.
pub(super) type RuleText<'t> = dyn Fn(&str, &str, usize) -> Option<String> + 't;

/// A call tree under construction.
struct Builder<'m> {
    text_of: &'m RuleText<'m>,
    lines: Vec<RuleVisit>,
    open: Vec<Open<'m>>,
    passed: usize,
    /// The share of all such packets that remains.
    share: Share,
}

/// Orders the matched rules. `share` is the share of packets that enter the hook, and is set to the share that leaves it. `kernel` has for
/// each rule whether the kernel matched it too.
pub(super) fn call_tree(
    matched: &[MatchedRule<'_>],
    kernel: &[Option<bool>],
    share: &mut Share,
    text_of: &RuleText<'_>,
) -> CallTree {
    let mut builder = Builder { text_of, lines: Vec::new(), open: Vec::new(), passed: 0, share: *share };
    let mut table = "";
    for (position, one) in matched.iter().enumerate() {
        if one.place.table != table {
            table = &one.place.table;
            builder.close_all();
        }
        builder.add(one, kernel.get(position).copied().flatten());
    }
    // After a verdict that ends a table, the rest of its chains is not evaluated.
    let is_ended = matched.last().is_some_and(|last| ends(last));
    if is_ended {
        builder.open.clear();
    }
    builder.close_all();
    *share = builder.share;
    builder.finish()
}

/// Returns whether a rule ends the evaluation of its chain and the chains that called it.
fn ends(matched: &MatchedRule<'_>) -> bool {
    matches!(matched.did, Evaluated::Stop) || matched.next_hook.is_end()
}

impl<'m> Builder<'m> {
    fn add(&mut self, matched: &'m MatchedRule<'_>, kernel: Option<bool>) {
        let chain = matched.place.chain.as_str();
        while self.open.last().is_some_and(|open| open.chain != chain)
            && self.open.iter().any(|open| open.chain == chain)
        {
            self.close();
        }
        if self.open.last().is_none_or(|open| open.chain != chain) {
            self.close_all();
            self.open.push(Open { chain, last: 0, len: matched.rule.chain_len(), jump: None, is_endpoints: false });
        }
        let depth = self.open.len() - 1;
        let Some(here) = self.open.last_mut() else { return };
        let passed = matched.place.number.saturating_sub(here.last + 1);
        // After a return, no rule of the chain is evaluated.
        here.last = if matched.next_hook == RuleExit::Return { here.len } else { matched.place.number };
        self.passed += passed;
        self.share = match matched.did {
            Evaluated::Match(share) | Evaluated::NotChosen(share) => share.within(self.share),
            Evaluated::Maybe | Evaluated::Stop => self.share,
        };
        self.lines.push(RuleVisit { kernel, ..line(matched, depth, passed, self.share) });
        let jump = Some(self.lines.len() - 1);
        let opened = |chain, len| {
            let is_endpoints = matched.rule.is_endpoint_chain(chain);
            Open { chain, last: 0, len, jump, is_endpoints }
        };
        match matched.next_hook {
            RuleExit::Jump { chain, of } => self.open.push(opened(chain, of)),
            RuleExit::Goto { chain, of } => {
                self.open.pop();
                self.open.push(opened(chain, of));
            }
            RuleExit::Rule | RuleExit::Return | RuleExit::Accept | RuleExit::End => {}
        }
        if ends(matched) {
            self.open.clear();
        }
    }

    /// Closes a chain: the rest of its rules do not match.
    fn close(&mut self) {
        let Some(open) = self.open.pop() else { return };
        self.passed += open.len - open.last;
        // A jump to a chain without a matching rule is omitted, unless that is why the packet is lost.
        let is_idle = |jump: &usize| jump + 1 == self.lines.len() && self.lines[*jump].kernel != Some(false);
        match open.jump.filter(is_idle) {
            Some(jump) if open.is_endpoints => {
                let unmatched = self.unmatched(&open, &self.lines[jump]);
                let note = &mut self.lines[jump].note;
                *note = Some(note.take().map_or_else(|| unmatched.clone(), |known| format!("{known}; {unmatched}")));
            }
            Some(jump) => {
                self.lines.truncate(jump);
                self.passed += 1;
            }
            None => {}
        }
    }

    /// Says that no rule of an endpoint's chain matches; the last is the one that should translate.
    fn unmatched(&self, chain: &Open<'_>, jump: &RuleVisit) -> String {
        let last = (self.text_of)(&jump.table, chain.chain, chain.len).map(|text| format!("; the last is `{text}`"));
        format!("no rule of {} matches the packet{}", chain.chain, last.unwrap_or_default())
    }

    fn close_all(&mut self) {
        while !self.open.is_empty() {
            self.close();
        }
    }

    fn finish(self) -> CallTree {
        CallTree { lines: self.lines, without_effect: self.passed }
    }
}

/// Returns the wording for a rule; `share` is the share of all packets that it takes.
fn words(matched: &MatchedRule<'_>, share: Share) -> Words {
    match matched.rule {
        Rule::Iptables { rule, chain } => iptables::words(rule, chain, matched.place.number, share),
        Rule::Nftables { rule, table, .. } => nftables::words(matched, rule, table, share),
    }
}

fn line(matched: &MatchedRule<'_>, depth: usize, passed: usize, share: Share) -> RuleVisit {
    let MatchedRule { place, did, .. } = matched;
    let Words { why, does, is_by_chance, sharing } = words(matched, share);
    RuleVisit {
        depth,
        language: match matched.rule {
            Rule::Iptables { .. } => "iptables",
            Rule::Nftables { .. } => "nftables",
        },
        table: place.table.clone(),
        chain: place.chain.clone(),
        number: place.number,
        chain_length: matched.rule.chain_len(),
        without_effect: passed,
        text: place.text.clone(),
        matched: match did {
            Evaluated::Match(_) => Matched::Yes,
            Evaluated::NotChosen(_) => Matched::NotChosen,
            Evaluated::Maybe => Matched::Maybe,
            Evaluated::Stop => Matched::Unknown,
        },
        condition: why,
        effect: match did {
            Evaluated::NotChosen(_) if matched.rule.hides_interfaces() => {
                "does not match, if it has other interfaces: continues with the next rule".to_owned()
            }
            Evaluated::NotChosen(_) => "not chosen: continues with the next rule".to_owned(),
            _ => does,
        },
        chance: match did {
            Evaluated::Match(part) | Evaluated::NotChosen(part) if is_by_chance => Some(Proportion::from(*part)),
            _ => None,
        },
        kernel: None,
        note: match did {
            Evaluated::Match(_) => sharing,
            Evaluated::Stop => Some("svclab does not model this rule, so the outcome is unknown".to_owned()),
            _ => None,
        },
    }
}
