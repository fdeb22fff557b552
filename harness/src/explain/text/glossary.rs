//! The glossary of the terms on a path's page.

use crate::explain::model::Path;
use crate::page::{Page, STRONG};

/// Adds the terms that the path uses.
pub(super) fn add(page: &mut Page, path: &Path) {
    let visits = || path.original.iter().chain(&path.reply);
    let rules = || visits().flat_map(|visit| &visit.rules);
    let mut terms: Vec<(&str, &str)> = Vec::new();
    if visits().next().is_some() {
        terms.push(("hook", "a point on a packet's path through the kernel at which rules are evaluated"));
    }
    terms.extend(HOOKS.iter().filter(|(hook, _)| visits().any(|visit| visit.hook == *hook)));
    for (language, meanings) in RULES {
        if rules().any(|rule| rule.language == language) {
            terms.extend(meanings);
        }
    }
    for (what, term, meaning) in CHANGES {
        if path.original.iter().any(|visit| visit.changes.iter().any(|change| change.what == what)) {
            terms.push((term, meaning));
        }
    }
    for (language, meaning) in RANDOM {
        if rules().any(|rule| rule.language == language && rule.chance.is_some()) {
            terms.push(("random", meaning));
        }
    }
    if rules().any(|rule| rule.kernel == Some(true)) {
        terms.push(("=", "the kernel matched this rule too"));
    }
    if rules().any(|rule| AFFINITY_RULES.iter().any(|words| rule.text.contains(words))) {
        terms.push(AFFINITY);
    }
    page.gap();
    page.line(0, page.paint(STRONG, "glossary"));
    for (term, meaning) in terms {
        page.labelled(2, format!("{term:<13}"), meaning);
    }
}

const HOOKS: [(&str, &str); 5] = [
    ("PREROUTING", "the packet has arrived on an interface and is not routed yet"),
    ("INPUT", "the packet is routed to a local process"),
    ("FORWARD", "the packet is routed to another machine"),
    ("OUTPUT", "a local process has sent the packet"),
    ("POSTROUTING", "the packet is about to leave through an interface"),
];

/// Terms of each rule language.
const RULES: [(&str, [(&str, &str); 3]); 2] = [
    (
        "iptables",
        [
            ("table", "rules of one purpose; their order at a hook is raw, mangle, nat (DNAT), filter, nat (SNAT)"),
            ("chain", "a list of rules evaluated in order; `-j NAME` jumps to another chain and returns from it"),
            ("rule", "matches, and the target (`-j`) for packets that meet all of them"),
        ],
    ),
    (
        "nftables",
        [
            ("chain", "a list of rules evaluated in order; `jump` returns from the other chain, `goto` does not"),
            ("rule", "expressions and statements, evaluated from left to right until one does not match"),
            ("map", "verdicts by address, protocol or port: one lookup instead of one rule for each service"),
        ],
    ),
];

const CHANGES: [(&str, &str, &str); 3] = [
    ("destination", "DNAT", "the destination is rewritten; conntrack reverses that for replies"),
    ("source", "SNAT", "the source is rewritten (MASQUERADE: to this machine's address), so that replies return here"),
    ("mark", "mark", "a number that rules set on a packet for later rules; it never leaves the machine"),
];

/// The text that identifies rules that record a client, in each language.
const AFFINITY_RULES: [&str; 2] = ["-m recent --set", "update @"];

const AFFINITY: (&str, &str) =
    ("affinity", "a recorded client returns to its endpoint; this path is that of a client that is not recorded yet");

/// How each language chooses at random.
const RANDOM: [(&str, &str); 2] = [
    (
        "iptables",
        "each rule sees what those before it left: 1/3, then 1/2 of the rest, then all of the rest give 1/3 each",
    ),
    ("nftables", "`numgen random mod 3` yields 0, 1 or 2, and a map has the verdict for each"),
];
