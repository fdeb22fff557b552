//! Rules that a terminal or an editor wrapped, and names of chains that came apart.

use std::cmp::Reverse;

use svclab_rules::cluster::{Family, Protocol};
use svclab_rules::iptables::{ChainHash, ChainKind, FIXED_CHAINS, Match, Nat, ParseError, Rule, Target, parse_rule};

/// The most lines that a rule continues on.
pub(super) const MAX_LINES: usize = 4;

/// Joins a rule with lines that follow it, if the result is more of a rule than the first line alone. Returns the number of lines
/// that were joined and the result.
pub(super) fn join(first: &str, following: &[&str]) -> Option<(usize, String)> {
    // What jumps nowhere is not a whole rule, however it is joined, but for one that kube-proxy writes for its comment.
    let leads_on = |text: &str| text.contains('j') || text.contains('g');
    if !first.contains(JUMPLESS) && !std::iter::once(first).chain(following.iter().copied()).any(leads_on) {
        return None;
    }
    let mut best = (weighed(first), 0, String::new());
    let mut readings = vec![first.to_owned()];
    for (count, next) in (1..).zip(following.iter().take(MAX_LINES)) {
        let next = next.trim_end();
        // A break cut the text at the width of a terminal, or stood for a blank.
        let both = |text: &String| [format!("{text}{next}"), format!("{} {next}", text.trim_end())];
        readings = readings.iter().filter(|text| is_open(text)).flat_map(both).collect();
        // Where the break is at a blank, both are the same.
        readings.dedup_by(|one, other| one.split_whitespace().eq(other.split_whitespace()));
        for text in &readings {
            let own = weighed(text);
            // Options that follow a rule may be its own, though it is one without them: those of REJECT.
            let is_apart = next.starts_with([' ', '\t']) || text.ends_with(&format!(" {next}"));
            let is_option = next.trim_start().starts_with('-') && is_apart;
            // And where names are made up, a rule is one only with its target.
            let is_completed = || !has_target(first) && has_target(text);
            if own > best.0 || own == best.0 && is_option && (own.0 >= Quality::Sound || is_completed()) {
                best = (own, count, text.clone());
            }
        }
        if best.0 == BEST {
            break;
        }
    }
    (best.1 > 0).then_some((best.1, best.2))
}

/// How the comment of a rule without a target starts.
const JUMPLESS: &str = "--comment \"other traffic to ";

/// Whether a rule may get better by what follows it: it is not the best already, and what cannot be read of it is not far before its end.
pub(super) fn is_open(text: &str) -> bool {
    let Some(rest) = split_rule(text).map(|(_, rest)| rest) else { return weighed(text) != BEST };
    let Err(error) = parsed(rest) else { return weighed(text) != BEST };
    let words = rest.split(' ').rev().take(MAX_WORDS);
    let end: usize = words.map(|word| word.chars().count() + 1).sum();
    error.column + end > rest.chars().count() || rest.matches('"').count() % 2 == 1
}

/// The most words of an option with all that belongs to it: what is wrong with it may be what is missing at the end.
const MAX_WORDS: usize = 8;

/// No text is more of a rule than this.
const BEST: Weight = (Quality::Verified, true, Reverse(0));

/// How much of a rule a text is, whether its comment is one that kube-proxy writes, and how many of its extensions have options that are not
/// known: two words that were joined are one that no extension has.
type Weight = (Quality, bool, Reverse<usize>);

fn weighed(text: &str) -> Weight {
    (quality(text), has_usual_comment(text), Reverse(unknown(text)))
}

fn unknown(text: &str) -> usize {
    let Some(Ok(rule)) = split_rule(text).map(|(_, rest)| parsed(rest)) else { return 0 };
    let matches = rule.matches.iter().filter(|one| matches!(one, Match::Other(_))).count();
    matches + usize::from(rule.target.as_ref().is_some_and(|target| target.unmodelled().is_some()))
}

fn has_target(text: &str) -> bool {
    split_rule(text).is_some_and(|(_, rest)| parsed(rest).is_ok_and(|rule| rule.target.is_some()))
}

fn has_usual_comment(text: &str) -> bool {
    let comment = text
        .split_once("--comment ")
        .and_then(|(_, rest)| rest.strip_prefix('"')?.split_once('"'))
        .map(|(comment, _)| comment);
    let Some(comment) = comment else { return true };
    let mut words = comment.split(' ');
    let is_service = words.next().is_some_and(|word| word.contains('/') && word.len() > 2);
    let rest = words.collect::<Vec<_>>().join(" ");
    is_service && (OF_SERVICES.contains(&rest.as_str()) || rest.starts_with("-> ") || rest.contains(" traffic"))
        || FIXED.contains(&comment)
        || comment.starts_with("kubernetes service nodeports; NOTE: this must be the last rule in this chain")
        || comment.starts_with("Balancing rule ")
        || AROUND_SERVICES.iter().any(|(start, end)| comment.starts_with(start) && comment.ends_with(end))
}

/// What follows a Service's name in comments.
const OF_SERVICES: [&str; 7] = [
    "",
    "cluster IP",
    "loadbalancer IP",
    "external IP",
    "has no endpoints",
    "has no local endpoints",
    "health check node port",
];

/// Comments of no Service.
const FIXED: [&str; 13] = [
    "kubernetes service portals",
    "kubernetes externally-visible service portals",
    "kubernetes postrouting rules",
    "kubernetes forwarding rules",
    "kubernetes service traffic requiring SNAT",
    "kubernetes load balancer firewall",
    "kubernetes health check service ports",
    "kubernetes forwarding conntrack rule",
    "kubernetes forwarding conntrack pod source rule",
    "kubernetes forwarding conntrack pod destination rule",
    "kubernetes firewall for dropping marked packets",
    "block incoming localnet connections",
    "Redirect pods trying to reach external loadbalancer VIP to clusterIP",
];

/// What stands around a Service's name in comments.
const AROUND_SERVICES: [(&str, &str); 7] = [
    ("other traffic to ", " will be dropped by KUBE-PROXY-FIREWALL"),
    ("pod traffic for ", " external destinations"),
    ("masquerade traffic for ", " external destinations"),
    ("masquerade LOCAL traffic for ", " external destinations"),
    ("masquerade LOCAL traffic for ", " LB IP"),
    ("route LOCAL traffic for ", " external destinations"),
    ("route LOCAL traffic for ", " LB IP to service chain"),
];

/// How much of a rule a text is. The hashes in chains' names are checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Quality {
    /// It cannot be read.
    Broken,
    /// It can be read, but has no target, or names that kube-proxy does not make.
    Odd,
    /// It can be read.
    Sound,
    /// Its chain's name is the hash of what it is for.
    Verified,
}

/// See [`Quality`].
pub(super) fn quality(text: &str) -> Quality {
    let Some((chain, rest)) = split_rule(text) else { return Quality::Broken };
    let Ok(rule) = parsed(rest) else { return Quality::Broken };
    let next = rule.next_chain().map(|next| &**next);
    if rule.target.is_none() || !is_sound(chain) || next.is_some_and(|next| !is_sound(next)) {
        return Quality::Odd;
    }
    if is_verified(chain, &rule) { Quality::Verified } else { Quality::Sound }
}

/// The chain of a rule, and what follows it.
fn split_rule(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let text = text.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map_or(text, |(_, rest)| rest);
    text.strip_prefix("-A ").map(|rest| rest.split_once(' ').unwrap_or((rest, "")))
}

/// A rule of either family; of the errors the one that is further on.
fn parsed(rest: &str) -> Result<Rule, ParseError> {
    let first = match parse_rule(rest, Family::Ipv4) {
        Ok(rule) => return Ok(rule),
        Err(error) => error,
    };
    // An address of IPv6 has two colons.
    if rest.bytes().filter(|byte| *byte == b':').count() < 2 {
        return Err(first);
    }
    parse_rule(rest, Family::Ipv6).map_err(|other| if other.column > first.column { other } else { first })
}

/// Targets, which rules name as they do chains.
const TARGETS: [&str; 15] = [
    "ACCEPT",
    "CONNMARK",
    "CT",
    "DNAT",
    "DROP",
    "LOG",
    "MARK",
    "MASQUERADE",
    "NOTRACK",
    "REDIRECT",
    "REJECT",
    "RETURN",
    "SNAT",
    "TCPMSS",
    "TPROXY",
];

/// Whether a name is one that kube-proxy makes, or none of its kind. Chains of other programs may have any name, but not a part of one that
/// every rule set has: that is cut.
fn is_sound(name: &str) -> bool {
    match ChainKind::of(name) {
        Some((_, hash)) => ChainHash::parse(hash).is_some(),
        None => {
            let fixed = || FIXED_CHAINS.into_iter().chain(TARGETS);
            let mut known = ChainKind::ALL.map(ChainKind::prefix).into_iter().chain(fixed());
            fixed().any(|known| known == name) || !known.any(|known| known.starts_with(name))
        }
    }
}

fn is_verified(chain: &str, rule: &Rule) -> bool {
    let Some(service) = rule.comment().and_then(|comment| comment.split(' ').find(|word| word.contains('/'))) else {
        return false;
    };
    if let (Some(hash), Some(Target::Dnat(Nat { addresses: Some((address, _)), ports: Some(ports), .. }))) =
        (ChainKind::Endpoint.hash(chain), &rule.target)
    {
        let to = std::net::SocketAddr::new(*address, ports.first).to_string();
        return Protocol::ALL.into_iter().any(|protocol| ChainHash::for_endpoint(service, protocol, &to) == hash);
    }
    let next = rule.next_chain().map(|next| &**next).unwrap_or_default();
    let hash = [next, chain].into_iter().find_map(|name| ChainKind::Service.hash(name));
    hash.is_some_and(|hash| {
        Protocol::ALL.into_iter().any(|protocol| ChainHash::for_service_port(service, protocol) == hash)
    })
}

/// A line with the names of chains that came apart joined: `KUBE-      SVC-…`, `KUBE-SVC-ABCD EFGHIJKLMNOP`.
pub(super) fn names_joined(line: &str) -> Option<String> {
    if !line.contains("KUBE-") {
        return None;
    }
    let mut words: Vec<String> = Vec::new();
    let mut is_changed = false;
    for word in line.split(' ') {
        let known = words.iter().rposition(|word| !word.is_empty());
        if let Some(last) = known.filter(|_| !word.is_empty()) {
            let joined = format!("{}{word}", words[last]);
            let is_part = words[last] == "KUBE-"
                && (ChainKind::of(&joined).is_some()
                    || ["MARK-", "POST", "SERV", "NODE"].iter().any(|start| word.starts_with(start)));
            let is_hash = hash_of(&words[last]).is_some_and(|hash| hash.len() < 16)
                && hash_of(&joined).is_some_and(|hash| hash.len() == 16);
            if is_part || is_hash {
                words.truncate(last);
                words.push(joined);
                is_changed = true;
                continue;
            }
        }
        words.push(word.to_owned());
    }
    is_changed.then(|| words.join(" "))
}

/// The letters of a hash in a name, also of a part of one.
fn hash_of(name: &str) -> Option<&str> {
    let (_, hash) = ChainKind::of(name)?;
    hash.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7')).then_some(hash)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const RULE: &str = "-A KUBE-SEP-HUXRPHBUO34UVPEF -p tcp -m comment --comment \"default/nginx\" -m tcp -j DNAT --to-destination 10.244.2.2:80";

    const JUMP: &str = "-A KUBE-SVC-2CMXP7HKUVJN7L6M ! -s 10.244.0.0/16 -d 10.96.34.82/32 -p tcp -m comment --comment \"default/nginx cluster IP\" -m tcp --dport 80 -j KUBE-MARK-MASQ";

    /// A break at any place is found, and the hash decides where several readings are rules.
    #[rstest]
    #[case::translation(RULE)]
    #[case::jump(JUMP)]
    fn a_rule_that_is_wrapped_anywhere_is_joined(#[case] rule: &str) {
        for at in 12..rule.len() {
            let (first, second) = rule.split_at(at);
            if rule == RULE && quality(first) == Quality::Verified {
                continue;
            }
            let joined = join(first, &[second])
                .map(|(lines, text)| (lines, text.split_whitespace().collect::<Vec<_>>().join(" ")));
            assert_eq!(joined, Some((1, rule.to_owned())), "{first}|{second}");
        }
    }

    /// A mail client breaks lines at blanks, which it removes.
    #[rstest]
    #[case(
        "-A KUBE-SEP-HUXRPHBUO34UVPEF -p tcp -m comment --comment \"default/nginx\" -m recent --set --name KUBE-SEP-HUXRPHBUO34UVPEF --mask 255.255.255.255 --rsource -m tcp -j DNAT --to-destination 10.244.2.2:80"
    )]
    #[case(
        "-A KUBE-SERVICES -d 10.96.34.82/32 -p tcp -m comment --comment \"default/nginx has no endpoints\" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable"
    )]
    #[case(
        "-A KUBE-NODEPORTS -p tcp -m comment --comment \"default/nginx\" -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j KUBE-SVC-2CMXP7HKUVJN7L6M"
    )]
    #[case(JUMP)]
    fn a_rule_that_is_wrapped_at_words_keeps_its_blanks(
        #[case] rule: &str,
        #[values(60, 72, 80, 100, 120)] width: usize,
    ) {
        let mut lines: Vec<String> = vec![String::new()];
        for word in rule.split(' ') {
            match lines.last_mut() {
                Some(last) if last.is_empty() => last.push_str(word),
                Some(last) if last.len() + 1 + word.len() <= width => *last += &format!(" {word}"),
                _ => lines.push(word.to_owned()),
            }
        }
        let following: Vec<&str> = lines[1..].iter().map(String::as_str).collect();
        let whole =
            if following.is_empty() { lines[0].clone() } else { join(&lines[0], &following).expect("a rule").1 };
        assert_eq!(whole, rule);
    }

    #[rstest]
    #[case(
        "-A KUBE-SERVICES -j KUBE-      SVC-2CMXP7HKUVJN7L6M",
        Some("-A KUBE-SERVICES -j KUBE-SVC-2CMXP7HKUVJN7L6M")
    )]
    #[case("-A KUBE-SVC-2CMXP7HK UVJN7L6M -j X", Some("-A KUBE-SVC-2CMXP7HKUVJN7L6M -j X"))]
    #[case(RULE, None)]
    fn names_are_joined(#[case] line: &str, #[case] expected: Option<&str>) {
        assert_eq!(names_joined(line).as_deref(), expected);
    }
}
