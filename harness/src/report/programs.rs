//! The programs that wrote the rules, if not the generator.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::counted;

/// The number of nodes that a line names.
const MAX: usize = 12;

/// The program that wrote the rules of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeProgram {
    /// The node.
    pub node: String,
    /// The program's name in the scenario (`proxy: {program: NAME}`); `null` if it has none.
    pub name: Option<String>,
    /// The program's file, or its command line (`--proxy-command`).
    pub command: String,
    /// The release of kube-proxy that it prints with `--version`; `null` for `--proxy-command`.
    pub release: Option<String>,
}

impl NodeProgram {
    /// The program in words: `old=/opt/kube-proxy (1.33.2)`.
    fn words(&self) -> String {
        let name = self.name.as_ref().map(|name| format!("{name}=")).unwrap_or_default();
        let release = self.release.as_ref().map(|release| format!(" ({release})")).unwrap_or_default();
        format!("{name}{}{release}", self.command)
    }
}

/// Each program in words, with its nodes; without nodes if all have the same program.
pub(crate) fn by_program(programs: &[NodeProgram]) -> Vec<(String, Vec<&str>)> {
    let mut all: Vec<(String, Vec<&str>)> = Vec::new();
    for one in programs {
        let words = one.words();
        match all.iter_mut().find(|(known, _)| *known == words) {
            Some((_, nodes)) => nodes.push(&one.node),
            None => all.push((words, vec![&one.node])),
        }
    }
    if let [(_, nodes)] = all.as_mut_slice() {
        nodes.clear();
    }
    all
}

/// The programs that wrote the rules, one line each: `rules written by /opt/kube-proxy (1.33.2)`.
pub(crate) fn program_lines(programs: &[NodeProgram]) -> Vec<String> {
    let line = |(program, nodes): (String, Vec<&str>)| {
        let more = nodes.len().saturating_sub(MAX);
        let named = nodes[..nodes.len() - more].join(", ");
        let of = match (nodes.len(), more) {
            (0, _) => String::new(),
            (1, _) => format!(" of node {named}"),
            (_, 0) => format!(" of nodes {named}"),
            _ => format!(" of nodes {named} and {}", counted(more, "other")),
        };
        format!("rules{of} written by {program}")
    };
    by_program(programs).into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(node: &str, name: Option<&str>, command: &str, release: Option<&str>) -> NodeProgram {
        let [name, release] = [name, release].map(|text| text.map(str::to_owned));
        NodeProgram { node: node.to_owned(), name, command: command.to_owned(), release }
    }

    #[test]
    fn a_program_of_all_nodes_is_named_once() {
        let all = ["a", "b"].map(|node| program(node, None, "/opt/kube-proxy", Some("1.33.2")));
        assert_eq!(program_lines(&all), ["rules written by /opt/kube-proxy (1.33.2)"]);
        assert_eq!(program_lines(&[]), Vec::<String>::new());
    }

    #[test]
    fn programs_are_named_by_node_where_they_differ() {
        let old = |node: &str| program(node, Some("old"), "/opt/kube-proxy", Some("1.27.1"));
        let all = [old("a"), program("b", None, "/opt/mine --config={config}", None), old("c")];
        assert_eq!(
            program_lines(&all),
            [
                "rules of nodes a, c written by old=/opt/kube-proxy (1.27.1)",
                "rules of node b written by /opt/mine --config={config}"
            ]
        );
        let many: Vec<NodeProgram> = (0..14).map(|number| old(&number.to_string())).chain([all[1].clone()]).collect();
        assert!(program_lines(&many)[0].contains("9, 10, 11 and 2 others written"), "{:?}", program_lines(&many));
    }
}
