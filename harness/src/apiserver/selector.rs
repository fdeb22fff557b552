//! Label and field selectors.

use std::collections::BTreeMap;

/// Conditions, all of which must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
}

/// `metadata.name=web`, or with `!=`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldRequirement {
    /// The position of the field among the resource's selectable ones.
    field: usize,
    is_equal: bool,
    value: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

impl Requirement {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(words) => value.is_some_and(|value| words.contains(value)),
            Test::NotIn(words) => value.is_none_or(|value| !words.contains(value)),
            Test::Greater(limit) => number().is_some_and(|number| number > *limit),
            Test::Less(limit) => number().is_some_and(|number| number < *limit),
        }
    }
}

impl FieldRequirement {
    fn holds(&self, fields: &[String]) -> bool {
        (fields.get(self.field) == Some(&self.value)) == self.is_equal
    }
}

impl Selector {
    /// Parses both selectors of a request; `names` are the resource's selectable fields.
    pub(super) fn parse(labels: &str, fields: &str, names: &[(&str, &str)]) -> Result<Self, String> {
        Ok(Self { labels: label_requirements(labels)?, fields: field_requirements(fields, names)? })
    }

    /// Returns whether an object with these labels and fields is selected.
    pub(super) fn selects(&self, labels: &BTreeMap<String, String>, fields: &[String]) -> bool {
        self.labels.iter().all(|requirement| requirement.holds(labels))
            && self.fields.iter().all(|requirement| requirement.holds(fields))
    }

    /// Returns whether every object is selected.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

/// Splits at commas outside of parentheses.
fn split_requirements(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let mut parts = text.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    let parts: Vec<&str> = parts.by_ref().map(str::trim).collect();
    if parts == [""] { Vec::new() } else { parts }
}

fn label_requirements(text: &str) -> Result<Vec<Requirement>, String> {
    split_requirements(text)
        .into_iter()
        .map(|part| {
            let found = requirement(part).filter(|found| is_label_key(&found.key));
            found.ok_or_else(|| format!("unable to parse requirement: found '{part}'"))
        })
        .collect()
}

fn requirement(part: &str) -> Option<Requirement> {
    let new = |key: &str, test| Some(Requirement { key: key.trim().to_owned(), test });
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some(key) = part.strip_prefix('!') {
        return new(key, Test::Absent);
    }
    if let Some(list) = part.strip_suffix(')') {
        let (head, list) = list.split_once('(')?;
        let words = list.split(',').map(|word| word.trim().to_owned()).collect();
        let (key, operator) = head.trim().rsplit_once(char::is_whitespace)?;
        return match operator {
            "in" => new(key, Test::In(words)),
            "notin" => new(key, Test::NotIn(words)),
            _ => None,
        };
    }
    let at = part.find(['!', '=', '<', '>']);
    let Some((key, rest)) = at.map(|at| part.split_at(at)) else { return new(part, Test::Exists) };
    let operators = ["!=", "==", "=", ">", "<"];
    let operator = operators.into_iter().find(|operator| rest.starts_with(operator))?;
    let value = &rest[operator.len()..];
    if value.contains(['!', '=', '<', '>']) {
        return None;
    }
    match operator {
        "!=" => new(key, Test::NotIn(one(value))),
        ">" => new(key, Test::Greater(value.trim().parse().ok()?)),
        "<" => new(key, Test::Less(value.trim().parse().ok()?)),
        _ => new(key, Test::In(one(value))),
    }
}

fn is_label_key(key: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    !key.is_empty() && key.chars().all(letter)
}

fn field_requirements(text: &str, names: &[(&str, &str)]) -> Result<Vec<FieldRequirement>, String> {
    let mut found = Vec::new();
    for part in escaped_split(text) {
        let (name, rest) = part.split_at(part.find(['!', '=']).unwrap_or(part.len()));
        let (is_equal, value) = match (rest.strip_prefix("!="), rest.strip_prefix("==").or(rest.strip_prefix('='))) {
            (Some(value), _) => (false, value),
            (None, Some(value)) => (true, value),
            (None, None) => return Err(format!("invalid selector: '{text}'; can't understand '{part}'")),
        };
        let field = names.iter().position(|(known, _)| *known == name);
        let field = field.ok_or_else(|| format!("field label not supported: {name}"))?;
        found.push(FieldRequirement { field, is_equal, value: unescape(value) });
    }
    Ok(found)
}

/// Splits at commas without a preceding backslash.
fn escaped_split(text: &str) -> Vec<&str> {
    let mut escaped = false;
    let parts = text.split(|c: char| {
        let splits = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        splits
    });
    parts.filter(|part| !part.is_empty()).collect()
}

fn unescape(text: &str) -> String {
    let mut escaped = false;
    let kept = text.chars().filter(|c| {
        escaped = *c == '\\' && !escaped;
        !escaped
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const FIELDS: &[(&str, &str)] = &[("metadata.name", ""), ("spec.type", "")];

    #[rstest]
    #[case::everything("", "", true)]
    #[case::of_kube_proxy("!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name", "", true)]
    #[case::absent("!app", "", false)]
    #[case::exists("app", "", true)]
    #[case::equal("app=web", "", true)]
    #[case::equal_twice("app==web,tier = front", "", false)]
    #[case::not_equal("app!=web", "", false)]
    #[case::not_equal_to_missing("tier!=web", "", true)]
    #[case::one_of("app in (db, web),size", "", true)]
    #[case::none_of("app notin (db,web)", "", false)]
    #[case::greater("size>3", "", true)]
    #[case::less("size<3", "", false)]
    #[case::field("", "metadata.name=a", true)]
    #[case::field_differs("", "metadata.name!=a", false)]
    #[case::escaped_field("", "spec.type==x\\,y\\=z", true)]
    #[case::both("app", "metadata.name=b", false)]
    fn selects(#[case] labels: &str, #[case] fields: &str, #[case] selected: bool) {
        let selector = Selector::parse(labels, fields, FIELDS).unwrap();
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let object = BTreeMap::from([("app", "web"), ("size", "4")].map(owned));
        assert_eq!(selector.selects(&object, &["a".to_owned(), "x,y=z".to_owned()]), selected);
    }

    #[rstest]
    #[case("app in web", "", "unable to parse requirement")]
    #[case("=web", "", "unable to parse requirement")]
    #[case("a,,b", "", "unable to parse requirement")]
    #[case("a=!b", "", "unable to parse requirement")]
    #[case("a>b", "", "unable to parse requirement")]
    #[case("", "spec.color=red", "field label not supported: spec.color")]
    #[case("", "metadata.name", "can't understand 'metadata.name'")]
    fn invalid(#[case] labels: &str, #[case] fields: &str, #[case] part: &str) {
        let error = Selector::parse(labels, fields, FIELDS).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
}
