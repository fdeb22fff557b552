//! Modules import only modules below them, as shown in ARCHITECTURE.md, and no folder has an import cycle.

use std::collections::{BTreeMap, BTreeSet};

use crate::crates;
use crate::imports::{Imports, imports};
use crate::modules::modules;

/// The modules of each crate, the lowest first. Those of one line do not import each other.
const LAYERS: [(&str, &[&[&str]]); 2] = [
    (
        "svclab-rules",
        &[
            &["cluster", "digits"],
            &["coverage"],
            &["profile", "walk"],
            &["selection", "promise"],
            &["iptables", "nftables", "conntrack"],
            &["ruleset", "chains"],
            &["cascade", "mutate"],
            &["compare"],
            &["infer"],
        ],
    ),
    (
        "svclab",
        &[
            &["text"],
            &["kernel", "open_files", "wire", "stats", "output", "page", "svg", "input", "collect", "apiserver"],
            &["observation", "yaml"],
            &["scenario", "evidence"],
            &["infer", "documents", "topology"],
            &["lab", "predict", "judge", "cascade", "lint"],
            &["probe", "sources", "report", "proxy"],
            &["trace", "environment", "vm"],
            &["worker"],
            &["run"],
            &["verify", "sampling", "explain", "results"],
            &["mutate", "diff", "minimize", "graph"],
            &["testing", "doctor", "anonymize", "shell"],
        ],
    ),
];

#[test]
fn modules_import_only_what_is_below_them() {
    let mut wrong = Vec::new();
    for ((name, src), (_, layers)) in crates().into_iter().zip(LAYERS) {
        let modules = modules(&src);
        let layer = |module: &str| {
            let layer = layers.iter().position(|layer| layer.contains(&module));
            layer.unwrap_or_else(|| panic!("{name}: {module} is in no layer"))
        };
        modules.iter().filter_map(|module| module.path.first()).for_each(|module| _ = layer(module));
        for (from, others) in &edges(&imports(&modules))[&Vec::new()] {
            let others = others.iter().filter(|to| layer(to) >= layer(from));
            wrong.extend(others.map(|to| format!("{name}: {from} imports {to}")));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn no_folder_has_an_import_cycle() {
    let mut cycles = Vec::new();
    for (name, src) in crates() {
        for (folder, edges) in edges(&imports(&modules(&src))) {
            cycles.extend(cycle(&edges).map(|cycle| format!("{name}::{}: {}", folder.join("::"), cycle.join(" → "))));
        }
    }
    assert_eq!(cycles, Vec::<String>::new());
}

/// The imports between the modules of a folder.
type Edges = BTreeMap<String, BTreeSet<String>>;

/// The imports between the modules of each folder: those inside a module count as its own.
fn edges(imports: &Imports) -> BTreeMap<Vec<String>, Edges> {
    let mut folders: BTreeMap<Vec<String>, Edges> = BTreeMap::new();
    for (from, others) in imports {
        for to in others {
            let common = from.iter().zip(to).take_while(|(from, to)| from == to).count();
            if let (Some(own), Some(other)) = (from.get(common), to.get(common)) {
                let folder = folders.entry(from[..common].to_vec()).or_default();
                folder.entry(own.clone()).or_default().insert(other.clone());
            }
        }
    }
    folders
}

/// The modules in cycles, if there are any: those that remain when modules without imports or importers are removed repeatedly.
fn cycle(edges: &Edges) -> Option<Vec<String>> {
    let mut left: BTreeMap<&String, BTreeSet<&String>> =
        edges.iter().map(|(from, to)| (from, to.iter().collect())).collect();
    loop {
        let before = left.len();
        let names: BTreeSet<&String> = left.keys().copied().collect();
        left.retain(|_, to| {
            to.retain(|to| names.contains(to));
            !to.is_empty()
        });
        let imported: BTreeSet<&String> = left.values().flatten().copied().collect();
        left.retain(|from, _| imported.contains(from));
        if left.len() == before {
            return (before > 0).then(|| left.iter().map(|(from, to)| format!("{from} imports {to:?}")).collect());
        }
    }
}
