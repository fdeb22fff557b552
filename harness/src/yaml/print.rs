//! Printing of values as YAML, as an author would write it: short entries on one line, long texts unchanged.

use std::net::IpAddr;

use crate::text::is_interpreted;

/// Maximum line length of an entry in short form.
const WIDTH: usize = 118;

/// A value to print.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    /// A number or a truth value.
    Bare(String),
    /// A string.
    Text(String),
    /// Lines, which are printed unchanged.
    Lines(String),
    /// A list.
    List(Vec<Item>),
    /// Fields, in order.
    Map(Fields),
}

/// Fields, in order.
pub(crate) type Fields = Vec<(String, Item)>;

impl From<&str> for Item {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Item {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Item {
    fn from(value: bool) -> Self {
        Self::Bare(value.to_string())
    }
}

impl From<u16> for Item {
    fn from(value: u16) -> Self {
        Self::Bare(value.to_string())
    }
}

impl From<u32> for Item {
    fn from(value: u32) -> Self {
        Self::Bare(value.to_string())
    }
}

impl<T: Into<Item>> From<Vec<T>> for Item {
    fn from(list: Vec<T>) -> Self {
        Self::List(list.into_iter().map(Into::into).collect())
    }
}

impl From<Fields> for Item {
    fn from(fields: Fields) -> Self {
        Self::Map(fields)
    }
}

/// Creates a map of texts, such as labels.
pub(crate) fn texts<'a>(map: impl IntoIterator<Item = (&'a String, &'a String)>) -> Item {
    Item::Map(map.into_iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect())
}

/// Prints a document: its fields, with every entry of a list on separate lines.
pub(crate) fn document(fields: &Fields) -> String {
    let mut out = String::new();
    for (name, item) in fields {
        out.push_str(&quoted(name));
        out.push(':');
        match item {
            Item::List(_) | Item::Map(_) if !item.is_empty() => block(item, 0, &mut out),
            _ => value(item, 0, name.len() + 1, &mut out),
        }
    }
    out
}

impl Item {
    fn is_empty(&self) -> bool {
        match self {
            Self::List(list) => list.is_empty(),
            Self::Map(fields) => fields.is_empty(),
            _ => false,
        }
    }

    /// Prints it on one line, if possible.
    fn flow(&self) -> Option<String> {
        Some(match self {
            Self::Bare(text) => text.clone(),
            Self::Text(text) => quoted(text),
            Self::Lines(text) if is_literal(text) => return None,
            Self::Lines(text) => escaped(text),
            Self::List(list) => {
                format!("[{}]", list.iter().map(Self::flow).collect::<Option<Vec<_>>>()?.join(", "))
            }
            Self::Map(fields) => {
                let field = |(name, item): &(String, Self)| Some(format!("{}: {}", quoted(name), item.flow()?));
                format!("{{{}}}", fields.iter().map(field).collect::<Option<Vec<_>>>()?.join(", "))
            }
        })
    }
}

/// Prints a value after `used` characters of a line: on this line if it fits, otherwise below.
fn value(item: &Item, indent: usize, used: usize, out: &mut String) {
    let is_scalar = matches!(item, Item::Bare(_) | Item::Text(_) | Item::Lines(_));
    let is_short = |text: &String| is_scalar || indent + used + text.len() < WIDTH;
    match (item.flow().filter(|text| is_short(text) || item.is_empty()), item) {
        (Some(text), _) => *out += &format!(" {text}\n"),
        (None, Item::Lines(text)) => lines(text, indent + 2, out),
        (None, _) => block(item, indent, out),
    }
}

/// Prints a list or map below its name.
fn block(item: &Item, indent: usize, out: &mut String) {
    out.push('\n');
    let margin = " ".repeat(indent + 2);
    match item {
        Item::List(list) => {
            for item in list {
                *out += &format!("{margin}-");
                match (item, item.flow().filter(|text| indent + text.len() + 4 < WIDTH)) {
                    (_, Some(text)) => *out += &format!(" {text}\n"),
                    (Item::Map(fields), None) => entry(fields, indent + 4, out),
                    (item, None) => value(item, indent + 2, 1, out),
                }
            }
        }
        Item::Map(fields) => {
            for (name, item) in fields {
                let name = quoted(name);
                *out += &format!("{margin}{name}:");
                value(item, indent + 2, name.len() + 1, out);
            }
        }
        Item::Bare(_) | Item::Text(_) | Item::Lines(_) => {}
    }
}

/// Prints a list's map over several lines, the first one after the hyphen.
fn entry(fields: &Fields, indent: usize, out: &mut String) {
    for (at, (name, item)) in fields.iter().enumerate() {
        let name = quoted(name);
        *out += &if at == 0 { format!(" {name}:") } else { format!("{}{name}:", " ".repeat(indent)) };
        value(item, indent, name.len() + 1, out);
    }
}

/// Returns whether a text can be printed as a block.
fn is_literal(text: &str) -> bool {
    let is_shown = |letter: char| matches!(letter, '\n' | '\t') || !is_escaped(letter);
    text.ends_with('\n')
        && !text.ends_with("\n\n")
        && !text.starts_with([' ', '\t', '\n'])
        && text.chars().all(is_shown)
}

fn lines(text: &str, indent: usize, out: &mut String) {
    out.push_str(" |\n");
    for line in text.lines() {
        if !line.is_empty() {
            *out += &format!("{}{line}", " ".repeat(indent));
        }
        out.push('\n');
    }
}

/// Returns a string, quoted if it would otherwise be parsed as something else.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
    let starts_plainly = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/');
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "nan", "infinity"];
    let is_address = || text.split('/').next().is_some_and(|ip| ip.parse::<IpAddr>().is_ok());
    let is_word = words.contains(&text.to_lowercase().as_str());
    let is_safe = text.bytes().all(is_plain) && !is_word && (starts_plainly || is_address());
    if is_safe { text.to_owned() } else { escaped(text) }
}

/// Returns a string in double quotes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            letter if is_escaped(letter) => match u32::from(letter) {
                code @ ..0x1_0000 => out += &format!("\\u{code:04x}"),
                code => out += &format!("\\U{code:08x}"),
            },
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// Returns whether a character must be escaped: more than YAML requires, because other characters are invisible.
fn is_escaped(letter: char) -> bool {
    is_interpreted(letter) || matches!(letter, '\u{fff0}'..='\u{ffff}') || letter >= '\u{e0000}'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::yaml::{decode, parse};

    fn read(text: &str) -> serde_json::Value {
        let path = std::path::Path::new("x.yaml");
        let (trees, errors) = parse(text, path);
        assert!(errors.is_empty(), "{errors:?}\n{text}");
        decode(path, &trees[0]).value.expect("a value")
    }

    /// However long they are.
    #[test]
    fn lines_with_control_characters_are_escaped() {
        let text = "a\u{1b}[31m\u{feff}\n".repeat(100);
        let printed = document(&vec![("a".to_owned(), Item::Lines(text.clone()))]);
        assert!(!printed.contains(['\u{1b}', '\u{feff}']), "{printed}");
        assert_eq!(read(&printed)["a"], text.as_str());
    }

    #[test]
    fn short_entries_stand_on_one_line_and_lines_as_they_are() {
        let node = |name: &str| Item::Map(vec![("name".to_owned(), name.into()), ("ip".to_owned(), "10.0.0.1".into())]);
        let rules = Item::Map(vec![("text".to_owned(), Item::Lines("*nat\n\n\tCOMMIT\n".to_owned()))]);
        let fields = vec![
            ("name".to_owned(), "1.30".into()),
            ("nodes".to_owned(), Item::List(vec![node("a"), node("b: c")])),
            ("rules".to_owned(), Item::Map(vec![("a".to_owned(), Item::List(vec![rules]))])),
        ];
        let text = document(&fields);
        assert_eq!(
            text,
            "name: \"1.30\"\nnodes:\n  - {name: a, ip: 10.0.0.1}\n  - {name: \"b: c\", ip: 10.0.0.1}\nrules:\n  a:\n    - text: |\n        \
             *nat\n\n        \tCOMMIT\n"
        );
        assert_eq!(read(&text)["rules"]["a"][0]["text"], "*nat\n\n\tCOMMIT\n");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(text in "\\PC{0,40}|[ \\t\\n#:,{}a0.\\-\\x00-\\x1f\u{85}\u{feff}]{0,60}", long in any::<bool>()) {
            let item = if long { Item::Lines(text.clone()) } else { Item::Text(text.clone()) };
            let fields = vec![("a".to_owned(), item.clone()), ("b".to_owned(), Item::List(vec![item.clone(), Item::Map(vec![("c".to_owned(), item)])]))];
            let read = read(&document(&fields));
            prop_assert_eq!(&read["a"], text.as_str());
            prop_assert_eq!(&read["b"][0], text.as_str());
            prop_assert_eq!(&read["b"][1]["c"], text.as_str());
        }
    }
}
