//! Releases of Kubernetes that a text names: `kubectl version`, the line of an issue's template, fields of nodes, kube-proxy's log and its image.

use svclab_rules::profile::Profile;

use super::model::{Contents, Evidence, Release};

/// What comes before the release of a server, in small letters.
const BEFORE: [&str; 6] = [
    "server version:",
    "kubernetes version:",
    "kubernetes server version:",
    "k8s version:",
    "kube-proxy version:",
    "kubeproxyversion:",
];

/// The releases that lines name: first those of fields, then that of sentences, if these name only one.
pub(super) fn find(text: &str) -> Vec<Release> {
    let (mut stated, mut mentioned) = (Vec::new(), Vec::new());
    for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| text.contains("1.")) {
        let of = |version: Profile| Release { file: None, line, version, node: None };
        match version_in(text).or_else(|| version_of_proxy(text)) {
            Some(version) => stated.push(of(version)),
            None => mentioned.extend(version_in_sentence(text).map(of)),
        }
    }
    // Which of several is the node's, a sentence does not say.
    let is_one = mentioned.iter().all(|one: &Release| one.version == mentioned[0].version);
    stated.extend(mentioned.into_iter().filter(|_| is_one));
    stated
}

/// The longest line that may name a release, in bytes.
const MAX_LINE: usize = 400;

fn version_in(line: &str) -> Option<Profile> {
    let start = line.bytes().position(|byte| byte.is_ascii_alphanumeric())?;
    let rest = line.get(start..).filter(|rest| rest.len() < MAX_LINE)?;
    // Markdown's marks stand anywhere in such a line.
    let rest: String = rest.chars().filter(|letter| !"*`".contains(*letter)).collect();
    let is_before = |words: &&str| rest.get(..words.len()).is_some_and(|own| own.eq_ignore_ascii_case(words));
    let template = "kubernetes version (use kubectl version):";
    let words = BEFORE.iter().copied().chain([template]).find(is_before)?;
    // `version.Info{Major:"1", Minor:"29", GitVersion:"v1.29.3", ...}` of older clients.
    let rest = rest[words.len()..].split_once("GitVersion:").map_or(&rest[words.len()..], |(_, rest)| rest);
    let mut words = rest.split(|letter: char| letter.is_whitespace() || "\",`*()".contains(letter));
    words.find_map(|word| word.trim_end_matches('.').parse().ok())
}

/// What a sentence calls the release of a cluster or its kube-proxy by, in small letters.
const NAMES: [&str; 3] = ["kubernetes", "k8s", "kube-proxy"];

/// Words of sentences about other releases than that of the cluster, in small letters: anywhere, and right before the name.
const OF_OTHERS: [&str; 15] = [
    "upgrade",
    "upgraded",
    "upgrading",
    "fixed",
    "introduced",
    "removed",
    "changed",
    "deprecated",
    "alpha",
    "beta",
    "ga",
    "graduates",
    "graduated",
    "planned",
    "client",
];
const BEFORE_OTHERS: [&str; 7] = ["since", "until", "before", "after", "from", "than", "从"];

/// The release in a sentence: `kube-proxy v1.33.2`, `Kubernetes version 1.27.3`.
fn version_in_sentence(line: &str) -> Option<Profile> {
    let names_one = ["ubernetes", "ube-proxy", "8s"].iter().any(|name| line.contains(name));
    let line = Some(line.trim()).filter(|line| names_one && line.len() < MAX_LINE)?.to_lowercase();
    let is_mark = |letter: char| letter.is_whitespace() || ",;:()*`\"'|".contains(letter);
    let words: Vec<&str> = line.split(is_mark).filter(|word| !word.is_empty()).collect();
    // A number with one dot is a release only where the part of the sentence ends: `1.30 changed nothing` is about another one.
    let ends_there = |word: &str| {
        let end = word.as_ptr() as usize - line.as_ptr() as usize + word.len();
        word.ends_with('.') || line[end..].chars().next().is_none_or(|next| ",;)".contains(next))
    };
    let release = |word: &str| -> Option<Profile> {
        let number = word.trim_end_matches('.');
        let is_plain = || match number.matches('.').count() {
            1 => ends_there(word),
            dots => dots == 2,
        };
        let is_release = number.starts_with("v1.") || number.starts_with("1.") && is_plain();
        // `1.33+` is any from then on.
        (is_release && !number.ends_with('+')).then(|| number.parse().ok()).flatten()
    };
    let mut all = words.iter().enumerate().filter_map(|(at, word)| Some((at, release(word)?)));
    let (at, version) = all.next().filter(|_| all.next().is_none())?;
    let mut before = words[..at].iter().rev().skip_while(|word| matches!(**word, "version" | "is"));
    let is_named = before.next().is_some_and(|word| NAMES.contains(word));
    let is_other = words.iter().any(|word| OF_OTHERS.contains(word))
        || before.next().is_some_and(|word| BEFORE_OTHERS.contains(word));
    (is_named && !is_other).then_some(version)
}

/// What is before the release in kube-proxy's log, and in the name of its image.
const OF_PROXY: [&str; 3] = ["] \"Version info\" version=\"", "server.go:", "/kube-proxy:"];

/// The release that a line of kube-proxy's log names, or its image: `server.go:662] "Version info" version="v1.30.0"`, `server.go:650] Version: v1.18.3`,
/// `registry.k8s.io/kube-proxy:v1.30.0`.
fn version_of_proxy(line: &str) -> Option<Profile> {
    let line = line.get(..line.len().min(400)).unwrap_or_default();
    let (start, rest) = OF_PROXY.iter().find_map(|start| Some((*start, line.split_once(start)?.1)))?;
    let rest = if start == "server.go:" { rest.split_once("] Version: ")?.1 } else { rest };
    let word = rest.split(|letter: char| !(letter.is_ascii_alphanumeric() || ".+-".contains(letter))).next()?;
    word.starts_with('v').then(|| word.parse().ok()).flatten()
}

/// The releases that evidence names: of the node objects, then of the cluster.
pub(crate) fn releases(evidence: &Evidence) -> Vec<Release> {
    let mut all = Vec::new();
    for piece in &evidence.pieces {
        let Contents::Objects(objects) = &piece.contents else { continue };
        for node in objects.iter().filter(|object| object["kind"] == "Node") {
            let info = &node["status"]["nodeInfo"];
            let version =
                ["kubeProxyVersion", "kubeletVersion"].iter().find_map(|field| info[field].as_str()?.parse().ok());
            let node = node["metadata"]["name"].as_str().map(str::to_owned);
            all.extend(version.map(|version| Release { file: piece.file.clone(), line: piece.first, version, node }));
        }
    }
    all.extend(evidence.releases.iter().cloned());
    all
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("I1127 12:34:56.789012       1 server.go:662] \"Version info\" version=\"v1.30.1\"", Some("1.30.1"))]
    #[case("I0614 12:34:56.789012       1 server.go:650] Version: v1.18.3", Some("1.18.3"))]
    #[case("    Image:         registry.k8s.io/kube-proxy:v1.29.4-eksbuild.1", Some("1.29.4"))]
    #[case("kube-proxy:latest", None)]
    #[case("I0614 12:34:56.789012       1 server.go:650] Neither kubeconfig file nor master URL was specified", None)]
    fn releases_of_kube_proxy_are_found(#[case] line: &str, #[case] expected: Option<&str>) {
        assert_eq!(version_of_proxy(line).map(|version| version.to_string()).as_deref(), expected);
    }

    #[rstest]
    #[case("Server Version: v1.29.3", Some("1.29.3"))]
    #[case("- Kubernetes version: v1.28.2+k3s1", Some("1.28.2"))]
    #[case("**Kubernetes version:** 1.27", Some("1.27"))]
    #[case("Kubernetes version (use `kubectl version`): v1.24.3", Some("1.24.3"))]
    #[case(
        "Server Version: version.Info{Major:\"1\", Minor:\"18\", GitVersion:\"v1.18.2\", GoVersion:\"go1.13.9\"}",
        Some("1.18.2")
    )]
    #[case("Client Version: v1.30.0", None)]
    #[case("Kustomize Version: v5.0.4", None)]
    #[case("**Kubernetes version**: 1.33.2", Some("1.33.2"))]
    #[case("we upgraded from 1.28", None)]
    fn releases_are_found(#[case] line: &str, #[case] expected: Option<&str>) {
        assert_eq!(version_in(line).map(|version| version.to_string()).as_deref(), expected);
    }
    #[rstest]
    #[case("This is kube-proxy v1.33.2 in iptables mode.", Some("1.33.2"))]
    #[case("Kubernetes v1.27.3", Some("1.27.3"))]
    #[case("- OS: Debian 12, Kubernetes version 1.29.4, Calico v3.27.0", Some("1.29.4"))]
    #[case("DNS of long running pods is broken. k8s 1.29", Some("1.29"))]
    #[case("We switched to nftables (k8s 1.31, kernel 6.8)", Some("1.31"))]
    #[case("It was fixed in Kubernetes v1.28.2.", None)]
    #[case("kube-proxy v1.30.1 works, kube-proxy v1.33.2 does not", None)]
    #[case("Kubernetes 1.30 changed nothing", None)]
    #[case("NodePort with nftables is expected to become GA in Kubernetes v1.33.", None)]
    #[case("#### nftables Mode (Kubernetes 1.33+)", None)]
    #[case("从 Kubernetes 1.33 开始，Endpoints API 已被弃用", None)]
    #[case("Calico v1.27.3", None)]
    fn releases_are_found_in_sentences(#[case] line: &str, #[case] expected: Option<&str>) {
        assert_eq!(version_in_sentence(line).map(|version| version.to_string()).as_deref(), expected);
    }

    #[test]
    fn a_field_comes_before_sentences_and_sentences_that_differ_name_none() {
        let versions = |text: &str| find(text).iter().map(|one| one.version.to_string()).collect::<Vec<_>>();
        assert_eq!(versions("On Kubernetes v1.27.3.\nServer Version: v1.29.4\n"), ["1.29.4", "1.27.3"]);
        assert_eq!(versions("On Kubernetes v1.27.3.\nOn Kubernetes v1.28.0.\n"), [""; 0]);
    }
}
