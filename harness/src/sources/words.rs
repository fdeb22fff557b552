//! A promise in one line.

use svclab_rules::promise::{Promise, PromisedEndpoint, PromisedOutcome};

/// The number of endpoints that are named.
const MAX_NAMED: usize = 4;

/// A promise in one line: endpoints with the same source and reply are listed together, and only the first few by name.
pub(crate) fn promise_words(promise: &Promise) -> String {
    let PromisedOutcome::Delivered { endpoints, affinity_seconds } = &promise.outcome else {
        return promise.outcome.to_string();
    };
    let [first, _, ..] = endpoints.as_slice() else { return promise.outcome.to_string() };
    let mut groups: Vec<Vec<&PromisedEndpoint>> = Vec::new();
    for endpoint in endpoints {
        match groups.iter_mut().find(|group| group[0].source == endpoint.source && group[0].reply == endpoint.reply) {
            Some(group) => group.push(endpoint),
            None => groups.push(vec![endpoint]),
        }
    }
    let words: Vec<String> = groups.iter().map(|group| group_words(group)).collect();
    let affinity = affinity_seconds.map(|seconds| format!(", each client to the same one for {seconds} s"));
    let head = format!("delivered to one of {} endpoints, {} each:", endpoints.len(), first.share);
    format!("{head} {}{}", words.join("; "), affinity.unwrap_or_default())
}

fn group_words(group: &[&PromisedEndpoint]) -> String {
    let PromisedEndpoint { source, reply, .. } = group[0];
    let named: Vec<String> = group.iter().take(MAX_NAMED).map(|endpoint| endpoint.address.to_string()).collect();
    let more = group.len().saturating_sub(MAX_NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more} ({source}; {reply})", named.join(", "))
}
