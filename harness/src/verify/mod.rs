//! Compares promise, prediction and observation for every vantage point and service address.
//!
//! Each flow has three independent sources: the *promise* of the Service API
//! ([`svclab_rules::promise`]), the *prediction* from walking the rules (`crate::predict`), and the *observation* of a real
//! packet in a lab (`crate::probe`). [`verify`] compares all three for the initial state of a scenario:
//!
//! - `prepared`: a scenario's plan and rules; `class_walk`: all possible first packets, in classes with the same promise and the same
//!   prediction; `boundaries`: where the promise changes; `later_packets`: later connections and segments;
//! - `run`: one witness of each class is sent through a lab; `restored`: then the next packet of each connection that conntrack tables have
//!   from the start; `tally`, `verification`: the result;
//! - `crate::sources`: the sources for one flow, and which of them disagree;
//! - `finding`: flows on which the sources disagree, by cause;
//! - `render`: the page for a terminal; `json`: the JSON output.

mod address_kinds;
mod boundaries;
mod class_walk;
mod finding;
pub mod json;
mod later_packets;
mod notes;
mod prepared;
mod render;
mod restored;
mod run;
mod tally;
mod verification;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::lab::Backend;
use crate::probe::Progress;
use crate::proxy::Programs;
use crate::report::{Machines, NodeProgram, Trouble};
use crate::run::{RunError, guarded, in_parallel_with, node_programs};
use crate::scenario::{Note, Scenario, Vantage};
use crate::worker::{self, Kind, Slot, Texts, WorkerLocation};

pub(crate) use boundaries::Boundaries;
pub(crate) use class_walk::{ClassWalk, PacketClass as AskedClass};
pub use finding::{Example, Finding};
pub use json::json;
pub(crate) use later_packets::Depth;
pub(crate) use prepared::{Prepared, vantages};
pub use render::{page, summary};
pub use verification::{AddressKind, CoverageRow, SenderKind, Verification};

pub use crate::sources::Disagreement;

/// Options of a verification.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Options {
    /// The number of labs that run in parallel; `None` means one per CPU.
    pub jobs: Option<NonZeroUsize>,
    /// The implementation of iptables that installs rules.
    pub backend: Backend,
    /// The programs that write the nodes' rules, instead of the generator; scenarios must fit them.
    pub programs: Option<Programs>,
    /// Flows that match a rule that svclab does not model are not failures.
    pub allow_unknown: bool,
    /// Compare promise and prediction only, without a lab.
    pub no_lab: bool,
    /// How often the witness of each class is sent; `None` means once.
    pub repeat: Option<NonZeroUsize>,
    /// Only packets for this service, as `namespace/name`, `name` in the namespace `default`, or with `:port`.
    pub service: Option<String>,
    /// Only packets of this vantage point, as a scenario names it.
    pub from: Option<String>,
    /// Only packets that start on this node.
    pub node: Option<String>,
    /// The maximum number of packet classes followed for all pods of a node, for each node's processes, and for outside hosts by each of
    /// their routes: each class takes time, and the remaining ones take memory.
    pub max_classes: u32,
    /// The release and mode of kube-proxy that override those of the input, in the form of `svclab explain --release`.
    pub release: Option<String>,
    /// Where the workers with labs run, one for each of `jobs`: virtual machines, or processes of svclab, which call [`serve`] when started
    /// with the arguments [`WORKER`](crate::worker::WORKER) and `verify`. If a worker's process dies, only its scenario fails. A worker
    /// parses [`Scenario::inputs`] again, so scenarios must be unchanged since they were read. `None` for threads of this process.
    #[serde(skip)]
    pub worker: Option<WorkerLocation>,
    /// The progress counter.
    #[serde(skip)]
    pub progress: Arc<Progress>,
}

/// The default maximum number of classes.
pub const MAX_CLASSES: u32 = 2_000_000;

impl Default for Options {
    fn default() -> Self {
        Self {
            jobs: None,
            backend: Backend::default(),
            programs: None,
            allow_unknown: false,
            no_lab: false,
            repeat: None,
            service: None,
            from: None,
            node: None,
            max_classes: MAX_CLASSES,
            release: None,
            worker: None,
            progress: Arc::default(),
        }
    }
}

impl Options {
    /// Whether packets of a vantage point are examined. Outside hosts do not belong to a node.
    fn selects_sender(&self, vantage: &Vantage, scenario: &Scenario) -> bool {
        let node = || match vantage {
            Vantage::Node(node) | Vantage::Localhost(node) => Some(node.as_str()),
            Vantage::Pod(name) => scenario.cluster.pod(name).map(|pod| pod.node.as_str()),
            Vantage::Host(_) => None,
        };
        self.from.as_ref().is_none_or(|from| *from == vantage.to_string())
            && self.node.as_ref().is_none_or(|wanted| node() == Some(wanted))
    }

    /// The option that selects no packet of any of these scenarios, with its value.
    pub fn selects_nothing(&self, scenarios: &[Scenario]) -> Option<(&'static str, &str)> {
        let any = |is_selected: &dyn Fn(&Scenario) -> bool| scenarios.iter().any(is_selected);
        let has_service = |scenario: &Scenario| {
            scenario.cluster.services.iter().any(|service| {
                service.ports.iter().any(|port| {
                    [port.name.clone(), port.port.to_string()]
                        .iter()
                        .any(|port| self.selects_service(Some(&format!("{}:{port}", service.name))))
                })
            })
        };
        let has_sender =
            |scenario: &Scenario| vantages(scenario).iter().any(|vantage| self.selects_sender(vantage, scenario));
        let service = self.service.as_deref().filter(|_| !any(&has_service)).map(|name| ("--service", name));
        let from = self.from.as_deref().filter(|_| !any(&has_sender)).map(|name| ("--from", name));
        let node = self.node.as_deref().filter(|_| !any(&has_sender)).map(|name| ("--node", name));
        service.or(from).or(node)
    }

    /// Whether packets for a service port (`namespace/name:port`), or for no service, are examined.
    fn selects_service(&self, port: Option<&str>) -> bool {
        let Some(wanted) = &self.service else { return true };
        let named = if wanted.contains('/') { wanted.clone() } else { format!("default/{wanted}") };
        port.is_some_and(|port| port == named || port.rsplit_once(':').is_some_and(|(service, _)| service == named))
    }
}

/// A scenario's verification, or the error that prevented it.
#[derive(Debug)]
pub struct Verified {
    /// The name of the scenario.
    pub name: String,
    /// The file, as the user named it.
    pub file: PathBuf,
    /// Its machines and services.
    pub(crate) machines: Machines,
    /// The programs that wrote its rules, by node.
    pub(crate) programs: Vec<NodeProgram>,
    /// The outcome.
    pub result: Result<Verification, Trouble>,
    /// The tables other than kube-proxy's that a node's rules contain but the lab does not, each with the number of its rules.
    pub left_out: Vec<String>,
    /// The rules of the input that are not part of the scenario, in words.
    pub ignored_rules: Vec<String>,
}

impl Verified {
    /// Whether all sources agree on all packets.
    pub fn holds(&self, options: &Options) -> bool {
        let holds =
            |verification: &Verification| verification.left_out == 0 && verification.failures(options).next().is_none();
        let is_whole = options.allow_unknown || self.ignored_rules.is_empty();
        is_whole && self.result.as_ref().is_ok_and(holds)
    }
}

/// Verifies scenarios in parallel, and passes each result to `finished`, in order, as soon as it is ready.
pub fn verify(scenarios: &[Scenario], options: &Options, finished: &(dyn Fn(&Verified) + Sync)) -> Vec<Verified> {
    let verify_one = |slot: &mut Option<Slot<'_>>, scenario: &Scenario| {
        let begin = Instant::now();
        let tables = scenario.notes.iter().filter_map(Note::left_out_tables).flatten().map(str::to_owned);
        let left_out = tables.collect::<BTreeSet<_>>().into_iter().collect();
        let result = match slot {
            Some(slot) => {
                let order = Order { scenario: Texts::of(scenario), options: Cow::Borrowed(options) };
                slot.ask(&order, &options.progress).map_err(|error| error.into_trouble())
            }
            None => verification(scenario, options),
        };
        let result = result.map(|verification| Verification { duration: begin.elapsed(), ..verification });
        let (name, file, machines) = (scenario.name.clone(), scenario.file.clone(), Machines::of(scenario));
        let programs = node_programs(scenario, options.programs.as_ref());
        let ignored_rules = scenario.ignored_rules.clone();
        Verified { name, file, machines, programs, result, left_out, ignored_rules }
    };
    let program = options.worker.as_ref().filter(|_| !options.no_lab);
    let slot = || program.map(|program| Slot::new(program, Kind::Verify));
    in_parallel_with(scenarios, options.jobs, slot, verify_one, finished)
}

/// Verifies a scenario in this process. A panic is an error of this scenario alone.
fn verification(scenario: &Scenario, options: &Options) -> Result<Verification, Trouble> {
    guarded(|| run::run(scenario, options)).map_err(RunError::into_trouble)
}

/// An order to a worker: a verification.
#[derive(Serialize, Deserialize)]
struct Order<'a> {
    scenario: Texts<'a>,
    options: Cow<'a, Options>,
}

/// Serves [`verify`] as a lab's worker process, over standard input and output.
///
/// # Errors
///
/// If these are not the pipes of a parent svclab.
pub fn serve() -> io::Result<()> {
    worker::serve(|order: Order<'static>, progress, _| {
        let options = Options { progress: Arc::clone(progress), ..order.options.into_owned() };
        let scenario = order.scenario.scenario_for(options.programs.as_ref())?;
        verification(&scenario, &options)
    })
}
