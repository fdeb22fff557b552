//! Known names in messages about unknown ones.

/// Maximum number of equally similar names that are suggested.
const NEAREST: usize = 3;

/// `Did you mean ...?` with the known name most similar to a mistyped one, or with several equally similar ones.
pub fn did_you_mean<S: AsRef<str>>(name: &str, known: &[S]) -> Option<String> {
    suggestion(name, known.iter().map(|known| (known.as_ref(), known.as_ref())))
}

/// The same for objects of any namespace (`namespace/name`), where a name was given without one.
pub(crate) fn did_you_mean_elsewhere<S: AsRef<str>>(name: &str, known: &[S]) -> Option<String> {
    let without =
        known.iter().filter_map(|known| known.as_ref().split_once('/').map(|(_, name)| (name, known.as_ref())));
    suggestion(name, without.filter(|_| !name.contains('/')))
}

/// Suggests the names whose compared parts are most similar.
fn suggestion<'k>(name: &str, known: impl Iterator<Item = (&'k str, &'k str)>) -> Option<String> {
    let lower = name.to_lowercase();
    let near: Vec<(usize, &str)> = known
        .map(|(compared, known)| (strsim::damerau_levenshtein(&lower, &compared.to_lowercase()), compared, known))
        .filter(|(distance, compared, _)| *distance * 3 <= compared.len().max(name.len()))
        .map(|(distance, _, known)| (distance, known))
        .collect();
    let least = near.iter().map(|(distance, _)| *distance).min()?;
    let mut nearest: Vec<&str> =
        near.into_iter().filter(|(distance, _)| *distance == least).map(|(_, name)| name).collect();
    nearest.truncate(NEAREST);
    Some(format!("Did you mean {}?", joined(&nearest, "or")))
}

/// Writes a list of names: `` `a`, `b` and `c` ``.
pub(crate) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    joined(names, "and")
}

/// Writes names with a word before the last of them.
fn joined<S: AsRef<str>>(names: &[S], word: &str) -> String {
    let mut text = String::new();
    for (index, name) in names.iter().enumerate() {
        text += &match index {
            0 => String::new(),
            _ if index + 1 == names.len() => format!(" {word} "),
            _ => ", ".to_owned(),
        };
        text.push('`');
        text.push_str(name.as_ref());
        text.push('`');
    }
    text
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::did_you_mean;

    #[rstest]
    #[case::one("clent", &["client", "server"], Some("Did you mean `client`?"))]
    #[case::tie("web-3", &["web-1", "web-2", "db"], Some("Did you mean `web-1` or `web-2`?"))]
    #[case::three_of_four("web-5", &["web-1", "web-2", "web-3", "web-4"], Some("Did you mean `web-1`, `web-2` or `web-3`?"))]
    #[case::none("zebra", &["client", "server"], None)]
    fn the_nearest_names_are_offered(#[case] name: &str, #[case] known: &[&str], #[case] expected: Option<&str>) {
        assert_eq!(did_you_mean(name, known).as_deref(), expected);
    }
}
