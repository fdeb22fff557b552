//! The names in rule text that is not modelled, in nft's own notation or in its JSON.

/// Returns the chains that it jumps or goes to.
pub(super) fn jumps(text: &str) -> Vec<&str> {
    let words = words(text);
    // `jump x`, or `{"jump": {"target": "x"}}`.
    let distance = if is_json(text) { 2 } else { 1 };
    let pairs = words.iter().zip(words.iter().skip(distance));
    pairs.filter(|(word, _)| matches!(**word, "goto" | "jump")).map(|(_, chain)| *chain).collect()
}

/// Returns the sets and maps that it names.
pub(super) fn sets(text: &str) -> Vec<&str> {
    words(text).into_iter().filter_map(|word| word.strip_prefix('@')).collect()
}

/// Returns the sets and maps whose keys it changes.
pub(super) fn changed_sets(text: &str) -> Vec<&str> {
    let words = words(text);
    let is_change = |word: &str| matches!(word, "add" | "update" | "delete");
    let has_change = words.windows(2).any(|pair| pair[0] == "op" && is_change(pair[1]));
    // `update @x { ... }`, or `{"set": {"op": "update", ..., "set": "@x"}}`.
    let is_before = |word: &str| match is_json(text) {
        true => has_change && matches!(word, "set" | "map"),
        false => is_change(word),
    };
    words.windows(2).filter(|pair| is_before(pair[0])).filter_map(|pair| pair[1].strip_prefix('@')).collect()
}

fn is_json(text: &str) -> bool {
    text.starts_with('{')
}

/// The words of either notation.
fn words(text: &str) -> Vec<&str> {
    let is_between = |letter: char| letter.is_whitespace() || ",;{}()[]\":".contains(letter);
    text.split(is_between).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::text("ct state vmap { new : jump a, established : goto b } @m", &["a", "b"], &["m"], &[])]
    #[case::text_of_a_change("limit rate 3/second add @s { ip saddr timeout 5s } jump a", &["a"], &["s"], &["s"])]
    #[case::json(
        r#"{"vmap": {"key": {"ct": {"key": "state"}}, "data": {"set": [["new", {"jump": {"target": "a"}}], ["x", {"goto": {"target": "b"}}]]}}}"#,
        &["a", "b"], &[], &[]
    )]
    #[case::json_of_a_map(r#"{"vmap": {"key": {"ct": {"key": "state"}}, "data": "@m"}}"#, &[], &["m"], &[])]
    #[case::json_of_a_change(
        r#"{"set": {"op": "add", "elem": {"elem": {"val": {"payload": {"protocol": "ip", "field": "saddr"}}, "timeout": 5}}, "set": "@s"}}"#,
        &[], &["s"], &["s"]
    )]
    #[case::json_of_a_lookup(r#"{"match": {"op": "==", "left": {"osf": {"key": "name"}}, "right": "@s"}}"#, &[], &["s"], &[])]
    fn names_are_found(#[case] text: &str, #[case] chains: &[&str], #[case] named: &[&str], #[case] changed: &[&str]) {
        assert_eq!(
            (jumps(text).as_slice(), sets(text).as_slice(), changed_sets(text).as_slice()),
            (chains, named, changed)
        );
    }
}
