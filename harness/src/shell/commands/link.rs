//! `link`: the settings of a machine's link.

use std::fmt::Write;

use clap::ValueEnum;
use svclab_rules::cluster::{Link as LinkOf, LinkOwner};

use crate::infer::AdHocChange;
use crate::scenario::link_words;
use crate::shell::engine::Engine;
use crate::shell::names::{is_place, normalized, suggested};
use crate::shell::reply::{Printed, View};

/// Change the link of a machine: take it down, set its MTU, or lose, delay, duplicate, reorder or limit its packets.
///
/// Settings that are not given are kept. With only PLACE, `link` shows its settings; without arguments, it lists all links with settings
/// other than the default. A pod's link leads to its node; that of a node or an outside host leads to the network between nodes.
#[derive(Debug, clap::Args)]
pub(in crate::shell) struct Link {
    /// The machine: `pod/NAME`, `node/NAME` or `host/NAME`.
    #[arg(value_name = "PLACE")]
    place: Option<String>,
    /// Whether packets pass.
    #[arg(value_enum)]
    state: Option<State>,
    /// The size of the largest IP packet that passes: 576 to 1500, and at least 1280 with IPv6.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(576..=1500))]
    mtu: Option<u16>,
    #[command(flatten)]
    impairments: Impairments,
    /// Restore the default settings.
    #[arg(long, conflicts_with_all = ["state", "mtu", "loss", "delay", "jitter", "duplicate", "reorder", "rate"])]
    reset: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum State {
    Down,
    Up,
}

/// Impairments in each direction, as a scenario writes them.
#[derive(Debug, clap::Args)]
struct Impairments {
    /// The share of packets that is lost in each direction: `10%`.
    #[arg(long, value_name = "PERCENT")]
    loss: Option<String>,
    /// The delay of packets: `20ms`.
    #[arg(long, value_name = "TIME")]
    delay: Option<String>,
    /// The maximum deviation from `--delay`: `5ms`.
    #[arg(long, value_name = "TIME")]
    jitter: Option<String>,
    /// The share of packets that arrives twice: `1%`.
    #[arg(long, value_name = "PERCENT")]
    duplicate: Option<String>,
    /// The share of packets that is not delayed, and so overtakes others: `25%`.
    #[arg(long, value_name = "PERCENT")]
    reorder: Option<String>,
    /// The maximum rate: `10mbit`, or `unlimited`.
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
}

/// The settings that `--reset` restores; the state is handled separately.
const USUAL: [(&str, &str); 7] = [
    ("mtu", "1500"),
    ("loss", "\"0%\""),
    ("delay", "\"0ms\""),
    ("jitter", "\"0ms\""),
    ("duplicate", "\"0%\""),
    ("reorder", "\"0%\""),
    ("rate", "unlimited"),
];

impl Link {
    pub(super) fn execute(self, engine: &mut Engine<'_>, _: &View) -> Result<Printed, Printed> {
        let Some(place) = &self.place else { return Ok(Printed::text(listed(engine))) };
        let Some((kind, name)) = place.split_once('/').filter(|_| is_place(place)) else {
            return Err(no_machine(place, &engine.places()));
        };
        let owner = owner(place, engine);
        let changes = self.changes(owner.as_ref().map(|owner| link_of(owner, engine)).unwrap_or_default());
        if !changes.is_empty() {
            let name = serde_json::Value::from(name);
            let fields: String =
                changes.iter().fold(String::new(), |text, (field, value)| text + &format!(", {field}: {value}"));
            engine.change(AdHocChange::Step(format!("link: {{{kind}: {name}{fields}}}\n")))?;
        }
        match owner {
            Some(owner) => Ok(Printed::text(line(&owner, link_of(&owner, engine)))),
            None => Err(no_machine(place, &engine.places())),
        }
    }

    /// The fields of a scenario's link that change, with their values as YAML.
    fn changes(&self, now: LinkOf) -> Vec<(&'static str, String)> {
        if self.reset {
            let up = (!now.state.is_up()).then_some(("state", "up"));
            return up.into_iter().chain(USUAL).map(|(field, value)| (field, value.to_owned())).collect();
        }
        let text = |text: &Option<String>| text.as_ref().map(|text| serde_json::Value::from(text.as_str()).to_string());
        let Impairments { loss, delay, jitter, duplicate, reorder, rate } = &self.impairments;
        let state = self.state.map(|state| match state {
            State::Down => "down".to_owned(),
            State::Up => "up".to_owned(),
        });
        let fields = [
            ("state", state),
            ("mtu", self.mtu.map(|mtu| mtu.to_string())),
            ("loss", text(loss)),
            ("delay", text(delay)),
            ("jitter", text(jitter)),
            ("duplicate", text(duplicate)),
            ("reorder", text(reorder)),
            ("rate", text(rate)),
        ];
        fields.into_iter().filter_map(|(field, value)| Some((field, value?))).collect()
    }
}

/// The machine of this name that owns a link.
fn owner(place: &str, engine: &Engine<'_>) -> Option<LinkOwner> {
    let place = normalized(place);
    let cluster = engine.cluster();
    let pods = cluster.pods.iter().filter(|pod| !pod.host_network).map(|pod| LinkOwner::Pod(pod.name.clone()));
    let nodes = cluster.nodes.iter().map(|node| LinkOwner::Node(node.name.clone()));
    let hosts = engine.scenario().hosts.iter().map(|host| LinkOwner::Host(host.name.clone()));
    nodes.chain(pods).chain(hosts).find(|owner| owner.to_string() == place)
}

fn link_of(owner: &LinkOwner, engine: &Engine<'_>) -> LinkOf {
    engine.cluster().links.get(owner).copied().unwrap_or_default()
}

/// `pod/client  loss 10%`
fn line(owner: &LinkOwner, link: LinkOf) -> String {
    let words = link_words(link);
    format!("{owner}  {}\n", if words.is_empty() { "default: up, mtu 1500" } else { &words })
}

/// All links with settings other than the default.
fn listed(engine: &Engine<'_>) -> String {
    let mut text = String::new();
    for (owner, link) in &engine.cluster().links {
        let _ = write!(text, "{}", line(owner, *link));
    }
    if text.is_empty() { "all links have the default settings: up, mtu 1500\n".to_owned() } else { text }
}

fn no_machine(name: &str, places: &[String]) -> Printed {
    let help = suggested(name, places)
        .unwrap_or_else(|| "Name a pod, a node or an outside host: `show` lists them.".to_owned());
    Printed::wrong(format_args!("this lab has no `{name}`"), &help)
}
