//! Rules of iptables mode in a real kernel: `iptables-save` shows everything that `iptables-restore` has loaded.
//!
//! The rules of all clusters and recorded releases are loaded in one network namespace for each implementation of iptables and each family,
//! one document after the other. It is created by `unshare`, with its own `/run` for the lock of iptables-legacy.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use rstest::rstest;
use svclab_rules::cluster::Family;
use svclab_rules::compare::compare;
use svclab_rules::iptables::{Policy, RuleSet, TableName, generate, parse, print};

/// The separator between the saved rules of two documents.
const NEXT: &str = "# next document";

#[rstest]
#[case::nft_ipv4("iptables-nft", Family::Ipv4)]
#[case::nft_ipv6("ip6tables-nft", Family::Ipv6)]
#[case::legacy_ipv4("iptables-legacy", Family::Ipv4)]
#[case::legacy_ipv6("ip6tables-legacy", Family::Ipv6)]
fn what_is_loaded_is_saved_again(#[case] program: &str, #[case] family: Family) {
    let documents = documents(family);
    assert!(documents.len() > 100, "every cluster has rules of every recorded release");
    let saved = load_and_save(&documents, program);
    let saved: Vec<&str> = saved.split_terminator(&format!("{NEXT}\n")).collect();
    assert_eq!(saved.len(), documents.len(), "one text for each document");
    let lost = documents.iter().zip(saved).filter_map(|((name, rules), saved)| {
        let saved = normalize(parse(saved, family).unwrap().rules);
        let rules = normalize(rules.clone());
        let printed: Vec<String> = compare(&rules, &saved).iter().map(ToString::to_string).collect();
        (rules != saved || !printed.is_empty())
            .then(|| format!("{name}: {}\nsaved:\n{}", printed.join("; "), print(&saved)))
    });
    let lost: Vec<String> = lost.collect();
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

/// The rules of every cluster that kube-proxy was recorded with, as every release that was recorded writes them.
fn documents(family: Family) -> Vec<(String, RuleSet)> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rules/tests/golden");
    let mut documents = Vec::new();
    for folder in folders(&golden) {
        for recording in folders(&folder) {
            let name = recording.file_name().and_then(|name| name.to_str()).unwrap();
            let Some(version) = name.strip_prefix('v').and_then(|name| name.strip_suffix("-iptables")) else {
                continue;
            };
            let cluster = crate::golden_support::load(&folder.join("cluster.yaml"), version);
            let rules = generate(&cluster, &cluster.nodes[0], family).unwrap();
            documents.push((recording.display().to_string(), rules));
        }
    }
    documents
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
}

/// The tables and chains by name, without empty ones: iptables shows all built-in chains of a table once it has been used.
fn normalize(mut rules: RuleSet) -> RuleSet {
    for table in &mut rules.tables {
        table.chains.retain(|chain| !chain.rules.is_empty() || chain.policy != Some(Policy::Accept));
        table.chains.sort_by(|a, b| a.name.cmp(&b.name));
    }
    rules.tables.retain(|table| !table.chains.is_empty());
    rules.tables.sort_by_key(|table| table.name);
    rules
}

/// Loads documents in a new namespace, each replacing the previous one, and returns the saved rules of each.
fn load_and_save(documents: &[(String, RuleSet)], program: &str) -> String {
    let mut script = "set -e\nPATH=$PATH:/usr/sbin:/sbin\nmount -t tmpfs run /run\n".to_owned();
    let save = match program.ends_with("legacy") {
        // Only root may read the list of its tables.
        true => format!("for table in mangle raw filter nat; do {program}-save -t $table; done"),
        false => format!("{program}-save"),
    };
    for (name, rules) in documents {
        let text = with_all_tables(rules);
        script += &format!(
            "{program}-restore <<'END_OF_RULES' || {{ echo 'rejected: {name}' >&2; exit 1; }}\n{text}END_OF_RULES\n\
             {save}\necho '{NEXT}'\n"
        );
    }
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount"]).args((!nix::unistd::geteuid().is_root()).then_some("-r"));
    command.args(["sh", "-s"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let output = thread::scope(|scope| {
        // A shell that exits early closes its input; its own message is more useful.
        scope.spawn(move || drop(input.write_all(script.as_bytes())));
        child.wait_with_output().unwrap()
    });
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}without root, large rule sets need what `svclab doctor` reports");
    String::from_utf8(output.stdout).unwrap()
}

/// The text of rules, with all other tables empty, so that nothing of an earlier document is left.
fn with_all_tables(rules: &RuleSet) -> String {
    let empty = |table: &&TableName| rules.table(**table).is_none() && **table != TableName::Security;
    let others = TableName::ALL.iter().filter(empty).map(|table| format!("*{table}\nCOMMIT\n"));
    print(rules) + &others.collect::<String>()
}
