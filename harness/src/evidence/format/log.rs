//! Logs of kube-proxy and other components: klog's text and JSON, and the text of logrus that k3s and containerd write.

mod services;
mod watches;

use super::super::line::{Line, is_time};
use super::super::logged::{Complaint, Failure};
use super::super::model::{Contents, Format, Setting};
use super::{Block, Context, knows_block, run};

/// The most lines of a value between `=<` and `>`.
const LONGEST_VALUE: usize = 50;

/// `I0614 12:34:56.789012       1 proxier.go:123] ...`
pub(super) fn knows(line: &str) -> bool {
    is_klog(line) || is_json(line) || is_logrus(line) || is_headless(line)
}

fn is_klog(line: &str) -> bool {
    let bytes = line.as_bytes();
    bytes.len() > 20
        && matches!(bytes[0], b'I' | b'W' | b'E' | b'F')
        && bytes[1..5].iter().all(u8::is_ascii_digit)
        && bytes[5] == b' '
        && line.get(6..).is_some_and(is_time)
        && line.contains("] ")
}

/// `{"ts":1654528123.4,"caller":"iptables/proxier.go:123","msg":"Syncing iptables rules","v":0}` of `--logging-format=json`
fn is_json(line: &str) -> bool {
    line.starts_with("{\"ts\":") && line.contains("\"msg\":\"") && line.ends_with('}')
}

/// `time="2024-06-14T12:34:56Z" level=info msg="Running kube-proxy --cluster-cidr=10.42.0.0/16"`
fn is_logrus(line: &str) -> bool {
    line.starts_with("time=\"") && line.contains(" level=") && line.contains(" msg=")
}

/// `proxier.go:123] "Syncing iptables rules"`, and `"Syncing iptables rules" ipFamily="IPv4"`: the head of the line is cut off.
fn is_headless(line: &str) -> bool {
    is_after_source(line) || is_message(line)
}

/// `proxier.go:123] ...`
fn is_after_source(line: &str) -> bool {
    let place = line.split_once("] ").and_then(|(place, _)| place.rsplit_once(".go:"));
    let Some((file, number)) = place else { return false };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-/.".contains(&byte);
    file.bytes().all(is_name) && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// `"Syncing iptables rules" ipFamily="IPv4"`
fn is_message(line: &str) -> bool {
    let parts = line.strip_prefix('"').and_then(|rest| rest.split_once("\" "));
    let Some((message, (key, value))) = parts.and_then(|(message, rest)| Some((message, rest.split_once('=')?))) else {
        return false;
    };
    let is_sentence = message.starts_with(|first: char| first.is_ascii_uppercase()) && message.contains(' ');
    let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-/".contains(&byte));
    let is_value = value.starts_with(['"', '<', '[', '{', '&']) || value.starts_with(|own: char| own.is_ascii_digit());
    is_sentence && is_key && is_value
}

pub(super) fn read(lines: &[Line<'_>], context: &Context) -> Option<Block> {
    let (mut taken, mut entries, mut settings, mut failures) = (0, 0, Vec::new(), Vec::new());
    loop {
        let count = run(&lines[taken..], |line| knows(line.trim()));
        if count == 0 {
            break;
        }
        let own = &lines[taken..taken + count];
        entries += own.iter().filter(|line| !line.is_blank()).count();
        settings.extend(own.iter().filter_map(|line| {
            let (name, value) = setting(line.text.trim())?;
            Some(Setting { line: line.number, name, value })
        }));
        failures
            .extend((taken..taken + count).filter_map(|at| failure(&lines[at..]).or_else(|| complaint(&lines[at]))));
        taken += count;
        taken += value(&lines[taken - 1..]);
    }
    let is_of_proxy = names(&lines[..taken], &OF_PROXY);
    let is_other = !is_of_proxy && names(&lines[..taken], &OTHERS);
    if is_other {
        failures.clear();
    } else {
        let is_asked = context.command.as_ref().is_some_and(|command| command.text.contains("kube-proxy"));
        failures.extend(watches::failures(&lines[..taken], is_of_proxy || is_asked));
    }
    let format = if is_other { Format::OtherLog } else { Format::ProxyLog };
    let own = lines[..taken].iter().map(|line| line.text.trim()).filter(|_| !is_other);
    let services = own.filter_map(services::event).collect();
    (taken > 0).then(|| Block::new(format, taken, Contents::Log { entries, settings, failures, services }))
}

/// The programs that contain kube-proxy.
const OF_PROXY: [&str; 6] = ["kube-proxy", "hyperkube", "k3s", "k3s-agent", "rke2", "microk8s"];

/// Other components, as journald names them.
const OTHERS: [&str; 9] = [
    "kubelet",
    "containerd",
    "crio",
    "dockerd",
    "etcd",
    "flanneld",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];

/// Whether the prefix of a line names one of these programs: `Jun 22 20:47:17 node kubelet[13993]: `.
fn names(lines: &[Line<'_>], programs: &[&str]) -> bool {
    let is_named = |line: &Line<'_>| {
        let before = line.raw.split_once(line.text.trim()).map(|(before, _)| before).unwrap_or_default();
        let mut words = before.split_whitespace().map(|word| word.trim_end_matches(':'));
        words.any(|word| programs.contains(&word.split_once('[').map_or(word, |(program, _)| program)))
    };
    lines.iter().any(is_named)
}

/// Returns the number of lines after the first that belong to its last value: `err=<`, indented lines, ` >`.
fn value(lines: &[Line<'_>]) -> usize {
    if !lines[0].text.trim_end().ends_with("=<") {
        return 0;
    }
    let rest = lines[1..].iter().take(LONGEST_VALUE);
    let own = rest.take_while(|line| !line.is_fence() && !knows_block(line.text.trim()));
    own.map(|line| line.text.trim()).position(|text| text == ">" || text.starts_with("> ")).map_or(0, |at| at + 1)
}

/// How messages of kube-proxy start that say it could not write its rules, in all releases and both modes.
const FAILURES: [&str; 2] = ["Failed to execute iptables-restore", "nftables sync failed"];

/// The same of messages that other programs may have, too, by the source file; the last are of IPVS mode.
const SHARED_FAILURES: [&str; 5] = [
    "Failed to ensure that ",
    "Failed to ensure chain ",
    "Failed to bind service address",
    "Failed to sync service",
    "Failed to sync endpoint",
];

/// The file of kube-proxy that writes rules, as klog names it.
const SOURCE: &str = "proxier.go:";

/// Words of other messages of kube-proxy, in several releases, which are reported whole.
const COMPLAINTS: [(&str, Complaint); 5] = [
    ("clusterCIDR not specified", Complaint::NoClusterCidr),
    ("defaulting to no-op detect-local", Complaint::NoClusterCidr),
    ("Failed to retrieve node info", Complaint::NodeName),
    ("can't open \"nodePort for ", Complaint::PortInUse),
    ("can't open port", Complaint::PortInUse),
];

/// The failure that a line of kube-proxy's names by words of [`COMPLAINTS`]; klog's heading is left out of the message.
fn complaint(line: &Line<'_>) -> Option<Failure> {
    let text = line.text.trim();
    let (_, complaint) = COMPLAINTS.iter().find(|(words, _)| text.contains(words))?;
    let message = text.split_once("] ").map_or(text, |(_, message)| message);
    Some(Failure { line: line.number, complaint: *complaint, what: message.to_owned(), why: String::new() })
}

/// What the first line says kube-proxy could not do. The reason is on the same line, or on the next one: `err=<`.
fn failure(lines: &[Line<'_>]) -> Option<Failure> {
    let text = lines[0].text.trim();
    let shared = SHARED_FAILURES.iter().filter(|_| text.contains(SOURCE));
    let at = FAILURES.iter().chain(shared).find_map(|start| text.find(start))?;
    // A message is quoted in structured logs, and ends with a colon in others.
    let end = if text[..at].ends_with('"') { "\"" } else { ": " };
    let what = text[at..].split(end).next()?;
    let own = text[at + what.len()..].trim_start_matches(['"', ':', ' ', ',']);
    let next = || lines.get(1).map(|next| next.text.trim()).filter(|next| !next.is_empty());
    let why = if own.ends_with("=<") { next()? } else { own };
    let why = ["err=", "err\":"].iter().find_map(|key| why.strip_prefix(key)).unwrap_or(why);
    // A quoted value ends before the next one.
    let why = match why.strip_prefix('"') {
        Some(rest) => rest.split_once("\" ").map_or_else(|| rest.trim_end_matches(['"', '}']), |(value, _)| value),
        None => why,
    };
    let line = lines[0].number;
    Some(Failure { line, complaint: Complaint::Sync, what: what.to_owned(), why: why.to_owned() })
}

/// The setting of the kernel that a line says kube-proxy has set.
fn setting(line: &str) -> Option<(String, String)> {
    let name = |path: &str| path.replace('/', ".");
    // `Set sysctl 'net/netfilter/nf_conntrack_max' to 131072` of older releases.
    if let Some((path, value)) = line.split_once("Set sysctl '").and_then(|(_, rest)| rest.split_once("' to ")) {
        return Some((name(path), number(value)?));
    }
    if let Some((_, rest)) = line.split_once("\"Set sysctl\" entry=\"") {
        let (path, rest) = rest.split_once('"')?;
        return Some((name(path), number(rest.trim_start().strip_prefix("value=")?)?));
    }
    let is_localnet =
        ["\"Setting route_localnet=1", "] Setting route_localnet=1"].iter().any(|start| line.contains(start));
    is_localnet.then(|| ("net.ipv4.conf.all.route_localnet".to_owned(), "1".to_owned()))
}

/// The number at the start of a text.
fn number(text: &str) -> Option<String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| text[..digits].to_owned())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::klog("I1127 12:34:56.789012       1 server.go:662] \"Version info\" version=\"v1.30.0\"", true)]
    #[case::json(
        r#"{"ts":1654528123.4,"caller":"iptables/proxier.go:123","msg":"Syncing iptables rules","v":0}"#,
        true
    )]
    #[case::logrus(
        "time=\"2024-06-14T12:34:56Z\" level=info msg=\"Running kube-proxy --healthz-bind-address=127.0.0.1\"",
        true
    )]
    #[case::without_time("proxier.go:805] \"Syncing iptables rules\"", true)]
    #[case::message("\"SyncProxyRules complete\" ipFamily=\"IPv4\" elapsed=\"12.3ms\"", true)]
    #[case::sentence("\"This is what I see\" is what he said = nothing", false)]
    #[case::json_object(r#"{"kind":"Service","msg":"x"}"#, false)]
    #[case::field(r#""name": "web","#, false)]
    fn lines_are_known(#[case] line: &str, #[case] expected: bool) {
        assert_eq!(knows(line), expected);
    }

    #[rstest]
    #[case::older("I0614 12:34:56.789012 1 conntrack.go:52] Set sysctl 'net/netfilter/nf_conntrack_max' to 131072", Some(("net.netfilter.nf_conntrack_max", "131072")))]
    #[case::structured("I0614 12:34:56.789012 1 conntrack.go:59] \"Set sysctl\" entry=\"net/netfilter/nf_conntrack_tcp_timeout_established\" value=86400", Some(("net.netfilter.nf_conntrack_tcp_timeout_established", "86400")))]
    #[case::localnet("I0614 12:34:56.789012 1 proxier.go:243] \"Setting route_localnet=1 to allow node-ports on localhost\"", Some(("net.ipv4.conf.all.route_localnet", "1")))]
    #[case::other("I0614 12:34:56.789012 1 proxier.go:243] \"Syncing iptables rules\"", None)]
    fn settings_are_found(#[case] line: &str, #[case] expected: Option<(&str, &str)>) {
        let found = setting(line);
        assert_eq!(found.as_ref().map(|(name, value)| (name.as_str(), value.as_str())), expected);
    }
}
