//! The machine that a heading in prose names: `On the worker:`, `## rules of node01`, `for control plane`, `On ip-10-0-1-5.ec2.internal:`; and that
//! ansible prints before its output: `worker-1 | CHANGED | rc=0 >>`.

use std::borrow::Cow;

/// The most words of a heading.
const MOST_WORDS: usize = 12;

/// Words for machines.
const KINDS: [&str; 9] =
    ["node", "worker", "master", "control-plane", "controlplane", "server", "agent", "minion", "host"];

/// Words before `node` that distinguish no node.
const INDISTINCT: [&str; 27] = [
    "a",
    "an",
    "the",
    "on",
    "of",
    "for",
    "from",
    "in",
    "to",
    "at",
    "by",
    "with",
    "and",
    "or",
    "per",
    "this",
    "that",
    "my",
    "our",
    "each",
    "every",
    "any",
    "all",
    "same",
    "k8s",
    "kubernetes",
    "cluster",
];

/// The most words of a heading that names a host: `Output of iptables-save on ip-10-0-1-5:`.
const MOST_WORDS_WITH_HOST: usize = 6;

/// Words before the name of a host.
const BEFORE_HOSTS: [&str; 3] = ["on", "from", "host"];

/// Words before the name of a host, a Service, a pod or a file.
const BEFORE_ANYTHING: [&str; 2] = ["of", "for"];

/// How names of programs start, and of the pods that they run in.
const PROGRAMS: [&str; 13] = [
    "kube-proxy",
    "kube-apiserver",
    "kube-flannel",
    "kubelet",
    "kubectl",
    "coredns",
    "calico-",
    "cilium-",
    "iptables",
    "ip6tables",
    "nft-",
    "containerd",
    "docker-",
];

/// The letters of the suffixes that Kubernetes makes names with.
const OF_SUFFIXES: &str = "bcdfghjklmnpqrstvwxz2456789";

/// What ansible says of a host before its output.
const OF_ANSIBLE: [&str; 3] = ["CHANGED", "SUCCESS", "FAILED"];

/// Whether a line is surely a heading that names a machine, whatever stands next to it.
pub(super) fn is_heading(line: &str) -> bool {
    line.ends_with(':') && machine_in(line).is_some()
}

/// The only machine that a heading names, as a node's name.
pub(super) fn machine_in(line: &str) -> Option<String> {
    if let Some(host) = host_at_end(line) {
        return Some(host);
    }
    let text = without_tags(line).to_lowercase().replace("control plane", "control-plane");
    let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
    let words: Vec<&str> = text
        .split(|letter: char| !is_of_word(letter))
        .map(|word| word.trim_matches(['.', '-', '_']))
        .filter(|word| !word.is_empty())
        .collect();
    if words.len() > MOST_WORDS {
        return None;
    }
    let mut found: Vec<String> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let (name, taken) = name_at(&words, at);
        at += taken;
        if let Some(name) = name.filter(|name| !found.contains(name)) {
            found.push(name);
        }
    }
    let only = found.pop();
    only.filter(|_| found.is_empty())
}

/// The host of `worker-1 | CHANGED | rc=0 >>`.
pub(super) fn ansible_host(line: &str) -> Option<String> {
    let mut parts = line.strip_suffix(">>")?.split(" | ");
    let (host, state) = (parts.next()?, parts.next()?);
    let is_of_ansible = OF_ANSIBLE.contains(&state) && parts.next()?.starts_with("rc=");
    (is_of_ansible && !host.contains(' ')).then(|| host.to_lowercase())
}

/// The host of `On ip-10-0-1-5.ec2.internal:`, of a heading in Markdown or of a summary in HTML that ends with one.
fn host_at_end(line: &str) -> Option<String> {
    let text = without_tags(line);
    let is_marked = text.trim_end().ends_with(':') || text.len() < line.len() || text.starts_with(['#', '*']);
    let words: Vec<&str> = text.split_whitespace().collect();
    let [.., before, last] = words.as_slice() else { return None };
    let is_short = words.len() <= MOST_WORDS_WITH_HOST && is_marked;
    let before = before.trim_start_matches('*').to_lowercase();
    let name = last.trim_matches(|letter: char| "`*:\"'()".contains(letter));
    let is_named = BEFORE_HOSTS.contains(&&*before) || BEFORE_ANYTHING.contains(&&*before) && is_surely_host(name);
    (is_short && is_named && is_host(name)).then(|| name.to_lowercase())
}

/// Whether a word is like the name of a host, and of no release, program, pod or chain.
fn is_host(word: &str) -> bool {
    let has = |is_one: fn(&u8) -> bool| word.bytes().any(|byte| is_one(&byte));
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    word.bytes().all(is_of_name)
        && has(u8::is_ascii_alphabetic)
        && has(u8::is_ascii_digit)
        && has(|byte| matches!(byte, b'.' | b'-'))
        && !word.split('-').any(is_release)
        && !word.starts_with("KUBE-")
        && !PROGRAMS.iter().any(|program| word.starts_with(program))
        && !is_pod(word)
}

/// Whether a word is what only hosts are named: `ip-10-0-1-5`, or with a domain that is not a Service's.
fn is_surely_host(word: &str) -> bool {
    let is_of_address =
        word.strip_prefix("ip-").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
    let mut labels = word.split('.').rev();
    let is_top_level = labels.next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_alphabetic()));
    is_of_address || is_top_level && labels.count() > 1 && !word.contains(".svc")
}

/// Whether a word is a release: `v1.28.3`, `22.04`.
fn is_release(word: &str) -> bool {
    let mut numbers = word.trim_start_matches(['v', 'V']).split('.');
    let mut is_number = || numbers.next().is_some_and(|part| part.starts_with(|first: char| first.is_ascii_digit()));
    word.contains('.') && is_number() && is_number()
}

/// Whether a word is the name of a Deployment's pod: `web-6d4f8b7c9-x7k2p`.
fn is_pod(word: &str) -> bool {
    let is_suffix = |part: &str| part.chars().all(|letter| OF_SUFFIXES.contains(letter));
    let mut parts = word.rsplit('-');
    let (last, template) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    last.len() == 5 && is_suffix(last) && (7..=10).contains(&template.len()) && is_suffix(template)
}

/// A line without the tags of HTML around it.
fn without_tags(line: &str) -> Cow<'_, str> {
    if !line.starts_with('<') {
        return Cow::Borrowed(line);
    }
    let outside = line.split('<').map(|part| part.split_once('>').map_or(part, |(_, rest)| rest));
    Cow::Owned(outside.collect::<Vec<_>>().join(" ").trim().to_owned())
}

/// The machine that words from a position on name, and how many words were looked at.
fn name_at(words: &[&str], at: usize) -> (Option<String>, usize) {
    let (word, next) = (words[at], words.get(at + 1).copied());
    let is_number = |word: &str| word.len() == 1 || word.bytes().all(|byte| byte.is_ascii_digit());
    let is_kind = |word: &str| KINDS.contains(&word);
    if is_kind(word) {
        return match next {
            Some(number) if is_number(number) && number != "a" => (Some(format!("{word}-{number}")), 2),
            Some("node") if word != "node" => match words.get(at + 2) {
                Some(number) if is_number(number) => (Some(format!("{word}-{number}")), 3),
                _ => (Some(word.to_owned()), 2),
            },
            // A name follows: `node kind-worker2`.
            Some(name) if has_kind(name) => (None, 1),
            _ if matches!(word, "node" | "host" | "server") => {
                let before = at.checked_sub(1).map(|before| words[before]);
                let distinct = before.filter(|before| !INDISTINCT.contains(before));
                (distinct.map(|before| format!("{before}-{word}")), 1)
            }
            _ => (Some(word.to_owned()), 1),
        };
    }
    (has_kind(word).then(|| word.to_owned()), 1)
}

/// Whether a word is a name with a word for a machine in it: `node01`, `kind-worker2`, `master-1`.
fn has_kind(word: &str) -> bool {
    let mut parts = word.split(['-', '_', '.']);
    let is_numbered = |part: &str| {
        let kind = part.trim_end_matches(|letter: char| letter.is_ascii_digit());
        KINDS.contains(&kind)
    };
    !KINDS.contains(&word) && !word.contains("port") && (parts.any(is_numbered) || word.contains("control-plane"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::machine_in;

    #[rstest]
    #[case("On the control plane:", Some("control-plane"))]
    #[case("## kubernetes service network for control plane", Some("control-plane"))]
    #[case("### kubernetes service network for node01", Some("node01"))]
    #[case("On the worker:", Some("worker"))]
    #[case("On the worker node:", Some("worker"))]
    #[case("**Node 2**", Some("node-2"))]
    #[case("From worker node 1", Some("worker-1"))]
    #[case("iptables of node `kind-worker2`:", Some("kind-worker2"))]
    #[case("On a working node:", Some("working-node"))]
    #[case("On the node where the pod runs:", None)]
    #[case("The rules of all nodes:", None)]
    #[case("The packets from worker-1 to worker-2 are lost:", None)]
    #[case("I expose it as node-port", None)]
    #[case("On ip-10-0-1-5.ec2.internal:", Some("ip-10-0-1-5.ec2.internal"))]
    #[case("#### iptables-save on `ip-10-0-1-5`", Some("ip-10-0-1-5"))]
    #[case("<details><summary>iptables-save on ip-10-0-1-5.ec2.internal</summary>", Some("ip-10-0-1-5.ec2.internal"))]
    #[case("<summary>The worker</summary>", Some("worker"))]
    #[case("It happens on ubuntu-22.04", None)]
    #[case("## Output of v1.28.3", None)]
    #[case("The rules of KUBE-SVC-4N57TFCL4MD7ZTDA:", None)]
    #[case("Rules of ip-10-0-1-5:", Some("ip-10-0-1-5"))]
    #[case("Rules for n1.example.com:", Some("n1.example.com"))]
    #[case("On k8s-1:", Some("k8s-1"))]
    #[case("Rules for web-1:", None)]
    #[case("Rules for web-1.default.svc.cluster.local:", None)]
    #[case("Logs of kube-proxy-x7k2p:", None)]
    #[case("Logs from kube-proxy-x7k2p:", None)]
    #[case("Output from web-6d4f8b7c9-x7k2p:", None)]
    #[case("Output from iptables-1.8.7:", None)]
    #[case("On ubuntu-22.04:", None)]
    #[case("On v1.28.3-eks-a1b2c3:", None)]
    fn a_heading_names_one_machine(#[case] line: &str, #[case] expected: Option<&str>) {
        assert_eq!(machine_in(line).as_deref(), expected);
    }

    /// Where it stands right after rules, it is no part of them; other lines there are.
    #[rstest]
    #[case("On node-2:", 0)]
    #[case("10.109.0.18 | CHANGED | rc=0 >>", 0)]
    #[case("bash-5.1", 1)]
    fn a_heading_next_to_rules_is_prose(#[case] line: &str, #[case] unread: usize) {
        let text = format!("*nat\n-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\nCOMMIT\n{line}\n");
        assert_eq!(crate::evidence::read(&text).unread.len(), unread);
    }
}
