//! Tests of whole texts.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rstest::rstest;

use super::*;
use crate::evidence::{Contents, Format};

fn anonymized(text: &str) -> Anonymized {
    anonymize_texts(&[Text { name: None, text: text.to_owned() }], Some("test"))
}

fn golden(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rules/tests/golden").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.to_string_lossy()))
}

/// Several formats, in which the same names and addresses appear.
const ISSUE: &str = r#"Hello, my name is Waldorf and the shop of Acme fails, see acme.example-corp.io.

```
$ kubectl get pods -n payments -o wide
NAME                          READY   STATUS    RESTARTS   AGE     IP           NODE                 NOMINATED NODE   READINESS GATES
checkout-7d9f8b6c5-x2x1z      1/1     Running   0          25h     10.244.2.2   ip-10-20-30-40.acme  <none>           <none>
$ kubectl get svc -n payments
NAME         TYPE        CLUSTER-IP      EXTERNAL-IP   PORT(S)   AGE
checkout     ClusterIP   10.96.34.82     <none>        80/TCP    26h
$ iptables-save | grep payments
-A KUBE-SERVICES -d 10.96.34.82/32 -p tcp -m comment --comment "payments/checkout cluster IP" -m tcp --dport 80 -j KUBE-SVC-FQMXOBOWVBW2D3DC
$ conntrack -L
udp 17 29 src=10.244.2.2 dst=10.96.34.82 sport=5353 dport=53 [UNREPLIED] src=10.96.34.82 dst=10.244.2.2 sport=53 dport=5353
$ tcpdump -ni eth0
12:00:00.000001 IP 10.244.2.2.33000 > 10.96.34.82.80: Flags [S], seq 1, win 64240, length 0
```

```yaml
apiVersion: v1
kind: Service
metadata:
  name: checkout
  namespace: payments
  uid: 550e8400-e29b-41d4-a716-446655440000
  annotations: {acme.io/owner: statler@acme.example-corp.io}
spec:
  clusterIP: 10.96.34.82
  ports: [{port: 80, targetPort: 8080}]
  selector: {app: checkout}
```
I0714 12:00:00.000000       1 proxier.go:1500] "Opened local port" port="payments/checkout" image="registry.acme.io/shop/checkout:1.2.3" mac=52:54:00:ab:cd:ef
"#;

/// A hash that stands alone is replaced like that in the chain's name, which does not change if nothing that was hashed is identifying.
#[rstest]
#[case::kept("goto service-6BI3YCZC-default/api/tcp/https, 6BI3YCZC or 6bi3yczc", true)]
#[case::replaced("goto service-ULMVA6XW-ns1/svc1/tcp/p80, ULMVA6XW or ulmva6xw", false)]
fn a_hash_by_itself_is_that_of_the_chain(#[case] text: &str, #[case] is_kept: bool) {
    let new = anonymized(text);
    let words: Vec<&str> = new.texts[0].text.split(' ').collect();
    let hash = words[1].strip_prefix("service-").and_then(|name| name.split_once('-')).map(|(hash, _)| hash).unwrap();
    assert_eq!([words[2], words[4]], [hash, &hash.to_lowercase()]);
    assert_eq!((text.contains(hash), new.proof.left.len()), (is_kept, 0), "{:?}", new.proof.left);
}

/// The documentation range is kept: its groups do not count as leftover words, even if such a word was replaced elsewhere.
#[rstest]
#[case::after("2001:db8::1 db8")]
#[case::prefix("2001:db8:: db8")]
#[case::together("2001:db8::}db8")]
#[case::with_port("[2001:db8::1]:80 db8 2001:db8::2.443")]
fn groups_of_kept_addresses_are_no_words(#[case] text: &str) {
    let new = anonymized(text);
    assert_eq!(new.proof.left, Vec::<String>::new());
    assert!(new.texts[0].text.contains("2001:db8:") && !new.texts[0].text.ends_with("db8"), "{:?}", new.texts);
}

#[test]
fn nothing_identifying_is_left() {
    let new = anonymized(ISSUE);
    let text = new.texts[0].text.to_lowercase();
    let tokens = [
        "waldorf",
        "statler",
        "acme",
        "example-corp",
        "payments",
        "checkout",
        "shop",
        "7d9f8b6c5",
        "x2x1z",
        "10.244.2.2",
        "10.96.34.82",
        "10-20-30-40",
        "550e8400",
        "446655440000",
        "52:54:00:ab:cd:ef",
        "fqmxobowvbw2d3dc",
        "registry",
    ];
    let left: Vec<&str> = tokens.into_iter().filter(|token| text.contains(token)).collect();
    assert!(left.is_empty(), "{left:?} in {text}");
    assert!(new.proof.left.is_empty() && new.proof.differing.is_empty(), "{:?}\n{text}", new.proof);
}

/// Addresses and names in every way that texts write them.
const WRITTEN: &str = r#"$ kubectl get cm kube-proxy -o json
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kube-proxy","namespace":"kube-system"},"data":{"config.conf":"mode: iptables\nbindAddress: 10.96.34.82\nhostnameOverride: gonzo\n\tfozzie: \u003c10.96.34.82\u003e\n"}}

$ dig -x 10.96.34.82
82.34.96.10.in-addr.arpa. 30 IN PTR gonzo.fozzie.svc.cluster.local.
a.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.d.f.ip6.arpa. 30 IN PTR gonzo.
10-96-34-82.fozzie.pod.cluster.local fd00-10-96--a.fozzie.pod.cluster.local ip-10-96-34-82.ec2.internal
64:ff9b::a60:2252 ::ffff:10.96.34.82 ::ffff:a60:2252 [fd00:10:96::a]:443 IP6 fd00:10:96::a.443 > fe80::1c2d:3e4f:5a6b:7c8d.80:
602401143452.dkr.ecr.us-west-2.amazonaws.com/gonzo:v1 arn:aws:iam::602401143452:role/gonzo
169.254.128.13 172.16.0.0/16 192.168.0.0/24 通过10.96.34.82和gonzo 地址
"#;

#[test]
fn addresses_are_replaced_in_every_notation() {
    let new = anonymized(WRITTEN);
    let text = new.texts[0].text.to_lowercase();
    let old = [
        "10.96.34.82",
        "82.34.96.10",
        "10-96-34-82",
        "a60:2252",
        "fd00:10:96",
        "fd00-10-96",
        "6.9.0.0.0.1.0.0.0.0.d.f",
        "1c2d",
        "7c8d",
        "602401143452",
        "169.254.128.13",
        "172.16.0.0",
        "192.168.0.0",
        "gonzo",
        "fozzie",
    ];
    let left: Vec<&str> = old.into_iter().filter(|token| text.contains(token)).collect();
    assert!(left.is_empty(), "{left:?} in {text}");
    assert!(new.proof.left.is_empty() && new.proof.differing.is_empty(), "{:?}\n{text}", new.proof);
    let ip =
        text.split_once("$ dig -x ").and_then(|(_, rest)| rest.split_once('\n')).map(|(ip, _)| ip).expect("an address");
    let reversed: Vec<&str> = ip.rsplit('.').collect();
    let nat64 = (0x0064_ff9b << 96) | u128::from(ip.parse::<std::net::Ipv4Addr>().expect("an address").to_bits());
    let nat64 = std::net::Ipv6Addr::from_bits(nat64);
    let written = [
        format!(r"\nbindaddress: {ip}\nhostnameoverride: "),
        format!(r"\u003c{ip}\u003e\n"),
        format!("{}.in-addr.arpa", reversed.join(".")),
        format!("{}.", ip.replace('.', "-")),
        nat64.to_string(),
        format!("::ffff:{ip} ::ffff:{ip} "),
    ];
    let lacking: Vec<&String> = written.iter().filter(|part| !text.contains(part.as_str())).collect();
    assert!(lacking.is_empty(), "{lacking:?} in {text}");
}

/// A terminal wraps in the middle of names and addresses, which would be left then.
#[rstest]
fn what_a_terminal_wrapped_is_not_left(#[values(80, 97, 120)] width: usize) {
    let text = golden("two-namespaces/v1.30-iptables/iptables-save.txt");
    let wrap = |line: &str| {
        line.as_bytes().chunks(width).map(|part| String::from_utf8_lossy(part).into_owned() + "\n").collect::<String>()
    };
    let wrapped: String = text.lines().map(wrap).collect();
    let new = anonymized(&wrapped);
    assert_eq!(new.texts, anonymized(&text).texts);
    assert!(matches!(new.proof.behaviour, Behaviour::Same { classes: 10.., .. }), "{:?}", new.proof);
}

/// Marks of a quote that were put in front of wrapped lines are no part of the names.
#[rstest]
#[case::quoted("> ")]
#[case::diff("+")]
#[case::in_fences("")]
fn what_was_wrapped_and_then_marked_is_not_left(#[case] mark: &str) {
    let text = golden("two-namespaces/v1.30-iptables/iptables-save.txt");
    let marked = |line: &str| {
        let parts = line.as_bytes().chunks(100).map(|part| format!("{mark}{}\n", String::from_utf8_lossy(part)));
        parts.collect::<String>()
    };
    let lines: String = text.lines().map(marked).collect();
    let sentence = "This is a sentence that is a little longer than any line of the text that follows it, as sentences are in an issue.";
    let new = anonymized(&format!("{sentence}\n\n{mark}```\n{lines}{mark}```\nThanks\n"));
    let whole: String = text.lines().map(|line| format!("{mark}{line}\n")).collect();
    let expected = anonymized(&format!("{sentence}\n\n{mark}```\n{whole}{mark}```\nThanks\n"));
    assert_eq!(new.texts, expected.texts);
    assert!(matches!(new.proof.behaviour, Behaviour::Same { classes: 10.., .. }), "{:?}", new.proof);
}

/// A word that sentences use is a name where the evidence says so, and a word where it stands in a sentence.
#[test]
fn names_that_are_words_are_replaced_where_they_are_names() {
    let text = "NAMESPACE   NAME   TYPE        CLUSTER-IP      EXTERNAL-IP   PORT(S)   AGE
example     work   ClusterIP   10.96.34.83     <none>        80/TCP    26h
-A KUBE-SERVICES -d 10.96.34.83/32 -p tcp -m comment --comment \"example/work cluster IP\" -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-SERVICES -m unknown --shop-name work -j KUBE-SVC-AAAAAAAAAAAAAAAA
$ kubectl get ep work -n example
EXAMPLE_WORK_SERVICE_HOST=10.96.34.83

The service work does not work, for example `work` in the namespace example.
and KUBE-SVC-      AAAAAAAAAAAAAAAA in front
";
    let new = anonymized(text);
    let (text, replaced) = (&new.texts[0].text, |word: &str| new.texts[0].text.to_lowercase().matches(word).count());
    assert!(text.contains(" does not work, for example `") && text.contains("in front"), "{text}");
    assert_eq!([replaced("work"), replaced("example"), replaced("shop")], [1, 1, 0], "{text}");
    let hash = text.split_once("-j KUBE-SVC-").map(|(_, rest)| &rest[..16]).expect("a hash");
    assert!(text.ends_with(&format!("KUBE-SVC-      {hash} in front\n")) && hash != "AAAAAAAAAAAAAAAA", "{text}");
    assert_eq!(new.proof.left, Vec::<String>::new());
}

/// A hash that does not match what it is for is what is reported: it does not match afterwards either. A service that everyone knows by its hash
/// is known by it, where no text names it.
#[test]
fn hashes_that_do_not_match_still_do_not() {
    let text = "*nat
-A KUBE-SERVICES -d 10.96.0.10/32 -p udp -m comment --comment \"kube-system/foo:bar cluster IP\" -m udp --dport 53 -j KUBE-SVC-TCOU7JCQXEZGVUNU
-A KUBE-SERVICES -d 10.96.0.80/32 -p tcp -m comment --comment \"shop/foo:bar cluster IP\" -m tcp --dport 80 -j KUBE-SVC-2CMXP7HKUVJN7L6M
-A KUBE-SVC-TCOU7JCQXEZGVUNU -j KUBE-SEP-HUXRPHBUO34UVPEF
-A KUBE-SEP-HUXRPHBUO34UVPEF -s 10.244.0.2/32 -j KUBE-MARK-MASQ
-A KUBE-SEP-HUXRPHBUO34UVPEF -p udp -m udp -j DNAT --to-destination 10.244.0.2:53
COMMIT
";
    let codes = |text: &str| {
        let findings = crate::lint::lint(&read(text)).into_iter();
        let codes: Vec<String> = findings.map(|finding| format!("{} {}", finding.id, finding.place.line)).collect();
        codes
    };
    let new = anonymized(text);
    let (before, after) = (codes(text), codes(&new.texts[0].text));
    assert!(
        ["hash-comment", "hash-endpoint"].iter().all(|code| before.iter().any(|own| own.contains(code))),
        "{before:?}"
    );
    assert_eq!(before, after, "{}", new.texts[0].text);
}

/// No network of the input is the new one of another.
#[test]
fn new_networks_are_none_of_the_old_ones() {
    let text = "10.42.0.0/16 10.96.0.0/12 10.96.0.1 10.42.0.21 10.244.0.0/16 10.0.1.0/24 10.128.0.0/9\n";
    for seed in 0..200 {
        let new = anonymize_texts(&[Text { name: None, text: text.to_owned() }], Some(&seed.to_string()));
        assert_eq!(new.proof.left, Vec::<String>::new(), "{seed}: {}", new.texts[0].text);
    }
}

/// Commands that are written like this are in many inputs: they stay what they are, apart from the names in them.
#[test]
fn commands_stay_commands() {
    let text = "Commands:

```console
$ kubectl get po,svc -owide -n kube-system
$ sudo iptables-save -t nat | egrep -v 'cali|DOCKER' | sort | cut -d' ' -f2
$ nft list ruleset | less
$ uname -a; ss -tlnp; lsmod | grep br_netfilter; journalctl -u kube-proxy --no-pager
$ kubectl rollout restart ds/kube-proxy -n kube-system
```
";
    assert_eq!(anonymized(text).texts[0].text, text);
}

/// The hash of a Service that every cluster has is not replaced, like its name, which need not be shown: it is counted. Those of its endpoints
/// depend on addresses.
#[test]
fn hashes_of_names_that_stay_are_counted() {
    let new = anonymized(&golden("two-namespaces/v1.30-iptables/iptables-save.txt"));
    assert_eq!(new.proof.kept_hashes, 0);
    let text = "-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment \"default/kubernetes:https cluster IP\" -m tcp --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y
-A KUBE-SVC-NPX46M4PTMTKRN6Y -m comment --comment \"default/kubernetes:https -> 172.18.0.2:6443\" -j KUBE-SEP-I3ZFUQ6CU2Y6JDWJ\n";
    let new = anonymized(text);
    assert_eq!(new.proof.kept_hashes, 1);
    assert!(!new.texts[0].text.contains("I3ZFUQ6CU2Y6JDWJ") && new.proof.left.is_empty(), "{new:?}");
    let without = "-A KUBE-SVC-NPX46M4PTMTKRN6Y -j KUBE-SEP-I3ZFUQ6CU2Y6JDWJ\n-A KUBE-SVC-NPX46M4PTMTKRN6Z -j RETURN\n";
    let text = &anonymized(without).texts[0].text;
    assert!(text.contains("NPX46M4PTMTKRN6Y") && !text.contains("NPX46M4PTMTKRN6Z"), "{text}");
}

#[test]
fn equal_things_stay_equal() {
    let new = anonymized(ISSUE);
    let evidence = read(&new.texts[0].text);
    let objects: Vec<&serde_json::Value> = evidence
        .pieces
        .iter()
        .filter_map(|piece| match &piece.contents {
            Contents::Objects(objects) => Some(objects),
            _ => None,
        })
        .flatten()
        .collect();
    let services: Vec<_> = objects.iter().filter(|object| object["kind"] == "Service").collect();
    let [table, manifest] = services.as_slice() else { panic!("{services:?}") };
    assert_eq!(table["metadata"]["name"], manifest["metadata"]["name"]);
    assert_eq!(table["spec"]["clusterIP"], manifest["spec"]["clusterIP"]);
    let ip = table["spec"]["clusterIP"].as_str().expect("an address");
    let name = format!(
        "{}/{}",
        manifest["metadata"]["namespace"].as_str().expect("a name"),
        manifest["metadata"]["name"].as_str().expect("a name")
    );
    let hash = svclab_rules::iptables::ChainHash::for_service_port(&name, svclab_rules::cluster::Protocol::Tcp);
    let text = &new.texts[0].text;
    assert!(text.contains(&format!("-d {ip}/32 -p tcp -m comment --comment \"{name} cluster IP\"")), "{text}");
    assert!(text.contains(&format!("-j KUBE-SVC-{hash}")), "{text}");
    assert!(text.contains(&format!("> {ip}.80: Flags")) && text.contains(&format!("dst={ip} sport=5353")), "{text}");
    assert!(evidence.pieces.iter().any(|piece| piece.format == Format::Tcpdump));
}

#[test]
fn a_seed_decides_and_chance_does_without() {
    let of = |seed| anonymize_texts(&[Text { name: None, text: ISSUE.to_owned() }], seed).texts;
    assert_eq!(of(Some("a")), of(Some("a")));
    assert_ne!(of(Some("a")), of(Some("b")));
    assert_ne!(of(None), of(None));
}

#[rstest]
#[case::iptables("two-namespaces/v1.30-iptables/iptables-save.txt")]
#[case::older("nodeport-local/v1.18-iptables/iptables-save.txt")]
#[case::ipv6("dual-stack/v1.30-iptables/ip6tables-save.txt")]
#[case::nftables("nodeport-local/v1.30-nftables/nft-ruleset.txt")]
#[case::ranges("loadbalancer-source-ranges/v1.30-nftables/nft-ruleset.txt")]
#[case::firewall("loadbalancer-local-none-here/v1.30-iptables/iptables-save.txt")]
#[case::affinity("affinity-clientip/v1.36-nftables/nft-ruleset.txt")]
fn rules_do_what_they_did_and_their_hashes_verify(#[case] name: &str) {
    let new = anonymized(&golden(name));
    let text = &new.texts[0].text;
    assert!(new.proof.left.is_empty() && new.proof.differing.is_empty(), "{:?}\n{text}", new.proof);
    assert!(matches!(new.proof.behaviour, Behaviour::Same { classes: 10.., .. }), "{:?}\n{text}", new.proof.behaviour);
    let wrong: Vec<_> = crate::lint::lint(&read(text))
        .into_iter()
        .filter(|finding| finding.severity != crate::lint::Severity::Info)
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn another_outcome_is_noticed() {
    let texts = [Text { name: None, text: golden("two-namespaces/v1.30-iptables/iptables-save.txt") }];
    let before = [read(&texts[0].text)];
    let mut scan = Scan::new(Key::from_seed("test"), &texts, HashSet::new());
    let mut new = texts.clone();
    new[0].text = scan.replace(&texts[0].text, &before[0]);
    let proof = verification::prove([&before, &before, &[read(&new[0].text)]], &new, &mut scan);
    assert!(matches!(proof.behaviour, Behaviour::Same { .. }), "{proof:?}");
    let cut: String =
        new[0].text.lines().filter(|line| !line.contains("-j DNAT")).map(|line| format!("{line}\n")).collect();
    let proof = verification::prove([&before, &before, &[read(&cut)]], &new, &mut scan);
    assert!(matches!(proof.behaviour, Behaviour::Differs(_)) && proof.differing == ["line 1"], "{proof:?}");
    new[0].text.push_str(&texts[0].text);
    assert!(!verification::prove([&before; 3], &new, &mut scan).left.is_empty());
}

/// A long text without blanks takes linear time, whatever its content.
#[rstest]
#[case::word("q", "z")]
#[case::ipv4("1.", "x")]
#[case::ipv6("ab:", "x")]
#[case::dashed("1-", "x")]
#[case::nft("-ABCDEFGH", "x")]
#[case::chain("KUBE-", "x")]
#[case::mixed("a1", "x")]
#[case::colons("::", "x")]
#[case::not_ascii("ö", "x")]
fn a_long_token_takes_linear_time(#[case] part: &str, #[case] end: &str) {
    let seconds = |bytes: usize| {
        let text = part.repeat(bytes / part.len()) + end;
        let start = std::time::Instant::now();
        let new = anonymized(&text);
        assert_eq!(new.proof.left, Vec::<String>::new());
        start.elapsed().as_secs_f64()
    };
    let (short, long) = (seconds(50_000), seconds(400_000));
    // Eight times as long: in quadratic time it would take 64 times as long.
    assert!(long < short * 24.0 + 0.5, "{short} s, {long} s");
}

/// Two digits of a new hardware address may be those of a word of the input by chance: they are no part of it.
#[test]
fn digits_of_new_identifiers_are_not_taken_for_old_words() {
    let words: String = (0..256).map(|byte| format!("host-{byte:02x}z {byte:02x}-{byte:02x} ")).collect();
    let text = format!("{words}\n    link/ether 5a:1b:2c:3d:4e:5f brd ff:ff:ff:ff:ff:ff\n");
    for seed in 0..20 {
        let texts = [Text { name: None, text: text.clone() }];
        let new = anonymize_texts(&texts, Some(&seed.to_string()));
        assert_eq!(new.proof.left, Vec::<String>::new(), "{}", new.texts[0].text);
    }
}

/// Rules of iptables-nft start with tabs and a blank: a rule of the same length as the longest line is not what a terminal wrapped.
#[rstest]
#[case::tabs("\t")]
#[case::blanks("        ")]
fn indented_rules_are_not_joined(#[case] tab: &str) {
    let long = |port: &str| {
        format!(
            "meta l4proto tcp ip saddr != 10.244.0.0/16 ip daddr 10.96.100.7  tcp dport {port} counter packets 0 bytes 0 jump KUBE-MARK-MASQ"
        )
    };
    let chain = |hash: &str, port: &str| {
        format!(
            "\tchain KUBE-SVC-{hash} {{\n\t\t{}\n\t\t counter packets 0 bytes 0 jump KUBE-SEP-{hash}\n\t}}\n\n\
             \tchain KUBE-SEP-{hash} {{\n\t\tmeta l4proto tcp   counter packets 0 bytes 0 dnat to 10.244.1.15:8080\n\t}}\n\n",
            long(port)
        )
    };
    let text = format!(
        "table ip nat {{\n{}{}\tchain KUBE-MARK-MASQ {{\n\t\tcounter packets 0 bytes 0 meta mark set mark or 0x4000\n\t}}\n}}\n",
        chain("CG5I4G2RS3ZVWGLK", "443"),
        chain("EDNDUDH2C75GIR6O", "643")
    );
    let text = text.replace('\t', tab);
    let new = anonymized(&text);
    assert_eq!(new.texts[0].text.lines().count(), text.lines().count(), "{}", new.texts[0].text);
    assert_eq!(read(&new.texts[0].text).rules(), read(&text).rules());
    assert!(new.proof.differing.is_empty(), "{:?}", new.proof);
}

/// The number of an account is replaced wherever it stands; that of a counter is not.
#[test]
fn the_number_of_an_account_is_replaced_everywhere() {
    let text =
        "AWS account 123456789012, arn:aws:iam::123456789012:role/acme\n-A INPUT -m limit --limit 654321098765/sec\n";
    let new = &anonymized(text).texts[0].text;
    assert!(!new.contains("123456789012") && new.contains("654321098765"), "{new}");
    let number = new.split_once("account ").expect("a number").1.split(',').next().expect("a number");
    assert!(new.contains(&format!("::{number}:role/")), "{new}");
}

/// An excerpt names an endpoint in a comment, or only the address: its chain's hash is that of the new name and address.
#[rstest]
#[case::comment(
    "-A KUBE-SVC-EKMTW6CQ5HIYSOIR -m comment --comment \"acme/shop:http -> 10.244.1.15:8080\" -j KUBE-SEP-S2UXZPNXHFTXSTKK\n"
)]
#[case::address(
    "-A KUBE-SEP-S2UXZPNXHFTXSTKK -s 10.244.1.15/32 -m comment --comment \"acme/shop:http\" -j KUBE-MARK-MASQ\n"
)]
fn hashes_of_endpoints_in_excerpts_are_computed_again(#[case] text: &str) {
    let new = &anonymized(text).texts[0].text;
    let word = |text: &str| new.split(['"', ' ', '/', '\n']).find(|word| word.contains(text)).map(str::to_owned);
    let name = new.split('"').nth(1).and_then(|comment| comment.split(' ').next()).expect("a name");
    let address =
        new.split(['"', ' ', '/', ':']).find(|word| word.parse::<std::net::Ipv4Addr>().is_ok()).expect("an address");
    let hash = svclab_rules::iptables::ChainHash::for_endpoint(
        name,
        svclab_rules::cluster::Protocol::Tcp,
        &format!("{address}:8080"),
    );
    assert_eq!(word("KUBE-SEP-"), Some(format!("KUBE-SEP-{hash}")), "{new}");
    assert!(!new.contains("S2UXZPNXHFTXSTKK"), "{new}");
}
