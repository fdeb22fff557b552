//! The node that a file is from, as it is given on the command line.

use std::str::FromStr;

use super::names::valid;

/// The node that a file's rules come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFile {
    /// The node.
    pub node: String,
    /// The file, or a folder of files; empty for the only input.
    pub file: String,
}

impl FromStr for NodeFile {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((node, file)) if !file.is_empty() && sanitized(node) == node => {
                Ok(Self { node: node.to_owned(), file: file.trim_end_matches('/').to_owned() })
            }
            None if !text.is_empty() && sanitized(text) == text => {
                Ok(Self { node: text.to_owned(), file: String::new() })
            }
            _ => Err("write the node's name, `=` and the file, for example worker-1=worker-1/iptables-save.txt"),
        }
    }
}

impl NodeFile {
    /// Whether a file of an input is the one that is named, or in the folder or archive.
    pub fn has(&self, file: &str) -> bool {
        let file = file.trim_start_matches("./");
        let own = self.file.trim_start_matches("./");
        own.is_empty()
            || file == own
            || file.strip_prefix(own).is_some_and(|rest| rest.starts_with('/'))
            || file.ends_with(&format!("/{own}"))
    }
}

/// A file's name as that of a node.
pub(super) fn sanitized(text: &str) -> String {
    let text = text.to_lowercase();
    let endings = [".txt", ".log", ".out", ".md", ".rules", ".save", ".yaml", ".json", ".gz", ".tar"];
    let stem = endings.iter().fold(text.as_str(), |text, ending| text.strip_suffix(ending).unwrap_or(text));
    if stem.chars().any(|letter| letter.is_ascii_alphanumeric()) { valid(stem) } else { String::new() }
}
