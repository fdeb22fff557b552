//! Evidence in any format, mangled in any way.

use svclab::evidence::{node_rules, read};
use svclab::lint::lint;
use svclab_rules_fuzz::{Target, corpus};

use super::repository_path;

/// The target.
pub const TARGET: Target = Target { name: "evidence", corpus, check };

/// Texts of kinds that recordings do not have.
const OTHERS: [&str; 4] = [
    "> $ iptables -t nat -L KUBE-SERVICES -n\n> Chain KUBE-SERVICES (2 references)\n> target prot opt source destination\n> KUBE-SVC-2CMXP7HKUVJN7L6M  tcp  --  0.0.0.0/0  10.96.34.82  /* default/nginx cluster IP */ tcp dpt:80\n",
    "```\nNAME  READY STATUS RESTARTS AGE IP NODE\nweb 1/1 Running 2 (3h ago) 1d 10.1.0.1 n1\n```\nNAME ENDPOINTS AGE\nweb 10.1.0.1:80 + 2 more... 1d\n",
    "udp 17 29 src=10.0.0.1 dst=10.96.0.10 sport=1 dport=53 [UNREPLIED] src=10.96.0.10 dst=10.0.0.1 sport=53 dport=1\n\n2: eth0: <UP> mtu 1500\n    inet 10.0.0.1/24\ndefault via 10.0.0.254 dev eth0\n0: from all lookup local\nadd X 10.0.0.1\nnet.ipv4.ip_forward = 1\n",
    "table ip kube-proxy {\n\tchain a {\n\t\tip daddr 10.0.0.1 drop\n\t}\n}\n{\n\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": []\n}\nName: web\nNamespace: a\nType: ClusterIP\nIP: 10.0.0.1\nSession Affinity: None\n",
];

fn corpus() -> Vec<Vec<u8>> {
    let folders = [repository_path("rules/tests/golden"), repository_path("harness/fuzz/regressions/evidence")];
    let mut all = corpus::files(
        &folders.each_ref().map(AsRef::as_ref),
        &["v1.30-iptables/iptables-save.txt", "v1.30-nftables/nft-ruleset.txt", "cluster.yaml", ".dump.txt"],
    );
    all.extend(OTHERS.iter().map(|text| text.as_bytes().to_vec()));
    all
}

/// Any text is read, and none of its lines is lost.
///
/// # Panics
///
/// If that does not hold.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let evidence = read(text);
    let lines = text.lines().count();
    let mut known = vec![false; lines + 1];
    let pieces = evidence.pieces.iter().map(|piece| (piece.first, piece.last));
    let prose = evidence.prose.iter().map(|prose| (prose.first, prose.last));
    let unread = evidence.unread.iter().map(|unread| (unread.line, unread.line));
    for (first, last) in pieces.chain(prose).chain(unread) {
        assert!(1 <= first && first <= last && last <= lines, "lines {first} to {last} of {lines}");
        known[first..=last].fill(true);
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (number, line) in (1..).zip(text.lines()) {
        assert!(known[number] || line.trim().is_empty(), "line {number} is lost: {line:?}");
    }
    for node in node_rules(&evidence) {
        assert!(!node.rules.print().is_empty() || evidence.rules() == 0);
    }
    for finding in lint(&evidence) {
        assert!(!finding.message.is_empty() && finding.entry().is_some(), "{finding:?}");
    }
}
