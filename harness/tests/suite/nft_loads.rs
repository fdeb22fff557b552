//! Tables of nftables mode in a real kernel: `nft list ruleset` shows what `nft -f` has loaded, and it equals the
//! recording of a real kube-proxy.
//!
//! Each case runs in its own network namespace, created by `unshare`; `ip` adds the bridge that one cluster's rules name.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rstest::rstest;
use svclab_rules::cluster::{Cluster, Family};
use svclab_rules::nftables::{AddressRange, Addresses, Condition, Ruleset, generate, parse, print, print_sync};

use crate::each_file::each_file;
use crate::golden_support::{first_difference, load, normalize, recordings};

#[test]
fn what_is_loaded_is_listed_again() {
    each_file(&["../rules/tests/golden/*/v*-nftables/nft-ruleset.txt"], assert_listed_again);
}

fn assert_listed_again(recording: &Path) {
    let folder = recording.parent().unwrap();
    let release =
        folder.file_name().and_then(|name| name.to_str()?.strip_prefix('v')?.strip_suffix("-nftables")).unwrap();
    let cluster = load(&folder.with_file_name("cluster.yaml"), recordings::version(release));
    let printed = tables(&cluster, print);
    let listed = listed_after(&[&printed]);
    same(&listed, &printed);
    same(&listed, &fs::read_to_string(recording).unwrap());
}

/// The tables of all clusters.
const TABLES: [&str; 1] = ["../rules/tests/golden/*/v1.30-nftables/nft-ruleset.txt"];

/// The layouts of other releases have no recordings, but it can be tested that the kernel accepts them.
#[rstest]
fn other_layouts_are_listed_again(#[values("1.31", "1.33", "1.37")] version: &str) {
    each_file(&TABLES, |recording| {
        let printed = tables(&cluster_of(recording, version), print);
        same(&listed_after(&[&printed]), &printed);
    });
}

/// The cluster of a recording, with another release.
fn cluster_of(recording: &Path, version: &str) -> Cluster {
    load(&recording.parent().and_then(Path::parent).unwrap().join("cluster.yaml"), version)
}

/// nft's JSON is parsed back to the generated rules.
#[rstest]
fn what_is_loaded_is_read_again(#[values("1.30", "1.33", "1.36", "1.37")] version: &str) {
    each_file(&TABLES, |recording| assert_read_again(&cluster_of(recording, version)));
}

fn assert_read_again(cluster: &Cluster) {
    let generated = Family::ALL.into_iter().filter_map(|family| generate(cluster, &cluster.nodes[0], family).ok());
    let generated = Ruleset { tables: generated.flat_map(|rules| rules.tables).collect() };
    let json = shown_after(&[&print(&generated)], "nft -j list ruleset");
    let read = parse(&json).unwrap_or_else(|errors| panic!("{errors:?}"));
    assert_eq!(read.others, []);
    let (read, generated) = (sorted(read.rules), sorted(generated));
    same(&print(&read), &print(&generated));
    assert_eq!(read, generated);
}

/// Sets, chains and elements sorted, ranges of addresses as nft shows them, and without the comments of tables and chains,
/// which nft 1.0.6 does not show as JSON.
fn sorted(mut rules: Ruleset) -> Ruleset {
    for table in &mut rules.tables {
        table.comment = None;
        table.sets.sort_by(|a, b| a.name.cmp(&b.name));
        table.sets.iter_mut().for_each(|set| set.elements.sort_by(|a, b| a.key.cmp(&b.key)));
        table.chains.sort_by(|a, b| a.name.cmp(&b.name));
        for chain in &mut table.chains {
            chain.comment = None;
            chain.rules.iter_mut().flat_map(|rule| &mut rule.conditions).for_each(as_shown);
        }
    }
    rules
}

/// A prefix of one address is shown as the address.
fn as_shown(condition: &mut Condition) {
    if let Condition::Address { value, .. } = condition
        && let Addresses::Prefix(prefix) = value
    {
        let range = AddressRange::from(*prefix);
        *value =
            if range.first == range.last { Addresses::One(range.first) } else { Addresses::Prefix(prefix.trunc()) };
    }
}

/// A sync replaces rules and elements of an earlier one, and keeps chains that are no longer used, without rules.
#[test]
fn a_sync_replaces_the_one_before() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rules/tests/golden");
    let cluster = |name: &str| load(&golden.join(name).join("cluster.yaml"), "1.30");
    let (before, after) = (cluster("small-cluster"), cluster("affinity-clientip"));
    let listed = listed_after(&[&tables(&before, print_sync), &tables(&after, print_sync)]);
    let wanted = tables(&after, print);
    let missing: Vec<String> =
        normalize(&wanted).into_iter().filter(|line| !normalize(&listed).contains(line)).collect();
    assert_eq!(missing, Vec::<String>::new());
    let rules = |text: &str| {
        let inside = normalize(text).into_iter().filter(|line| line.starts_with("\t\t"));
        inside.filter(|line| line.contains("10.")).collect::<Vec<_>>()
    };
    assert_eq!(rules(&listed), rules(&wanted), "rules and elements of the sync before are left");
    same(&listed_after(&[&tables(&after, print_sync)]), &wanted);
}

/// The tables of both families, those that kube-proxy's release can write.
fn tables(cluster: &Cluster, print: impl Fn(&Ruleset) -> String) -> String {
    let tables = Family::ALL.into_iter().filter_map(|family| generate(cluster, &cluster.nodes[0], family).ok());
    tables.map(|table| print(&table)).collect()
}

/// nft merges several ranges into `{ 0.0.0.0/0 }`, and lists that without braces.
fn same(listed: &str, wanted: &str) {
    let normal = |text| normalize(text).iter().map(|line| without_lone_braces(line)).collect::<Vec<_>>();
    let difference = first_difference(&normal(listed), &normal(wanted));
    assert!(difference.is_none(), "{}", difference.unwrap_or_default());
}

/// A rule without braces around a single address or range.
fn without_lone_braces(line: &str) -> String {
    match line.split_once("addr != { ").and_then(|(start, rest)| Some((start, rest.split_once(" }")?))) {
        Some((start, (lone, end))) if !lone.contains(',') => format!("{start}addr != {lone}{end}"),
        _ => line.to_owned(),
    }
}

/// The output of `nft list ruleset` in a new namespace, after `nft -f` has loaded the texts one after the other.
fn listed_after(texts: &[&str]) -> String {
    shown_after(texts, "nft list ruleset")
}

/// The output of a command in such a namespace.
fn shown_after(texts: &[&str], command: &str) -> String {
    let load = "nft -f - <<'END_OF_TABLES'\n";
    let loads: String = texts.iter().map(|text| format!("{load}{text}END_OF_TABLES\n")).collect();
    let script = format!("set -e\nip link add cni0 type bridge\n{loads}{command}\n");
    let mut command = Command::new("unshare");
    command.args(if nix::unistd::geteuid().is_root() { ["--net"].as_slice() } else { &["--net", "-r"] });
    command.args(["sh", "-s"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
