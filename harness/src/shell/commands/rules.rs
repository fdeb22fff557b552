//! `rules`: the rules that are installed on a node.

use svclab_rules::cluster::{Cluster, Family, Node};
use svclab_rules::compare::{Comparison, compare_nodes};
use svclab_rules::ruleset::Rules as RuleSets;

use crate::input::did_you_mean;
use crate::lab::LabError;
use crate::shell::engine::Engine;
use crate::shell::reply::{Printed, View};
use crate::text::{counted, shortened};

/// Print the rules that are installed on a node, or what was changed by hand (`rules diff`).
///
/// `rules diff` compares with the rules that svclab has installed; its exit code is 1 if they differ.
#[derive(Debug, clap::Args)]
pub(in crate::shell) struct Rules {
    /// The node, optionally after `diff` [default: the first node, with `diff` all nodes]
    #[arg(value_name = "[diff] [NODE]", num_args = 0..=2)]
    words: Vec<String>,
}

impl Rules {
    pub(super) fn execute(self, engine: &mut Engine<'_>, _: &View) -> Result<Printed, Printed> {
        let (is_diff, nodes) = match self.words.split_first() {
            Some((first, rest)) if first == "diff" => (true, rest),
            _ => (false, self.words.as_slice()),
        };
        let nodes = match nodes {
            [] if is_diff => engine.cluster().nodes.iter().collect(),
            [] => engine.cluster().nodes.iter().take(1).collect(),
            [name] => vec![node(name, engine.cluster())?],
            [..] => return Err(Printed::wrong("two nodes are given", "Name one node.")),
        };
        if is_diff {
            return diff(engine, &nodes);
        }
        let mut text = String::new();
        for node in nodes {
            for family in Family::ALL.into_iter().filter(|family| node.internal_ip(*family).is_some()) {
                text += &saved(engine, node, family)?;
            }
        }
        Ok(Printed::text(text))
    }
}

/// Finds a node by its name, with or without `node/`.
fn node<'c>(name: &str, cluster: &'c Cluster) -> Result<&'c Node, Printed> {
    let name = name.strip_prefix("node/").unwrap_or(name);
    let names: Vec<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
    let choose = || format!("Choose one of these: {}.", names.join(", "));
    cluster.node(name).ok_or_else(|| {
        Printed::wrong(format_args!("there is no node `{name}`"), &did_you_mean(name, &names).unwrap_or_else(choose))
    })
}

/// The rules of a node, as printed by the programs that list them.
fn saved(engine: &Engine<'_>, node: &Node, family: Family) -> Result<String, LabError> {
    let lab = engine.lab();
    let place = format!("node/{}", node.name);
    let netns = lab.topology().find(&place).ok_or(LabError::Unknown { netns: place })?;
    lab.saved(netns, engine.cluster().proxy.mode, family)
}

fn diff(engine: &Engine<'_>, nodes: &[&Node]) -> Result<Printed, Printed> {
    let (mut text, mut count) = (String::new(), 0);
    for node in nodes {
        for document in engine.documents().iter().filter(|one| one.netns == format!("node/{}", node.name)) {
            if document.is_other_tables() || document.rules.mode() != engine.cluster().proxy.mode {
                continue;
            }
            let text_of_node = saved(engine, node, document.family)?;
            let found = RuleSets::parse(document.rules.mode(), document.family, &text_of_node);
            let found = found.map_err(|errors| {
                let ((line, _), message) = errors.first().map(|error| error.in_text()).unwrap_or_default();
                let rule = shortened(text_of_node.lines().nth(line.saturating_sub(1)).unwrap_or_default());
                let message = format!("the rules of {} cannot be read: {message}\n  {rule}", document.netns);
                Printed::wrong(message, "Remove the rule that svclab does not know.")
            })?;
            let found = found.for_family(document.family).without_runtime_state();
            let Comparison { own, in_others, .. } = compare_nodes(&*document.rules, &found);
            let all: Vec<String> = own.iter().chain(&in_others).map(|finding| format!("  {finding}\n")).collect();
            if !all.is_empty() {
                let differences = counted(all.len(), "difference");
                text +=
                    &format!("{} {}: {differences} from what svclab has installed\n", document.netns, document.family);
                text += &all.concat();
            }
            count += all.len();
        }
    }
    if count == 0 {
        text = "no difference: the rules are those that svclab has installed\n".to_owned();
    }
    Ok(Printed { text, code: u8::from(count > 0), ..Printed::default() })
}
