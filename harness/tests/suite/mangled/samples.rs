//! A text of each format that people paste.

use std::io::Write;
use std::process::{Command, Stdio};

use super::ARCHIVE;

fn read(path: &str) -> String {
    std::fs::read_to_string(format!("../rules/tests/{path}")).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The table `nat` as `iptables -t nat -S` prints it.
fn printed(saved: &str) -> String {
    let nat = saved.split("*nat\n").nth(1).and_then(|rest| rest.split("COMMIT").next()).unwrap();
    let line = |line: &str| match line.strip_prefix(':').map(|rest| rest.split(' ').collect::<Vec<_>>()) {
        Some(words) if words[1] == "-" => format!("-N {}\n", words[0]),
        Some(words) => format!("-P {} {}\n", words[0], words[1]),
        None => format!("{line}\n"),
    };
    nat.lines().map(line).collect()
}

/// What a command prints in a network namespace of its own.
fn output(command: &str, input: &str) -> String {
    let mut child = Command::new("unshare")
        .args(["-n", "sh", "-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command}");
    String::from_utf8(output.stdout).unwrap()
}

/// What `nft -j list ruleset` prints of rules, line by line, as `jq .` has it.
fn json_of(ruleset: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(&output("nft -f - && nft -j list ruleset", ruleset)).unwrap();
    serde_json::to_string_pretty(&value).unwrap() + "\n"
}

/// The formats, each with its text.
pub(super) fn samples() -> Vec<(&'static str, String)> {
    let saved = read("golden/small-cluster/v1.30-iptables/iptables-save.txt");
    let ruleset = read("golden/small-cluster/v1.30-nftables/nft-ruleset.txt");
    let listing = |form: &str| read(&format!("listings/small-cluster/v1.30-iptables/legacy-ipv4-{form}.txt"));
    vec![
        ("`iptables-save`", saved.clone()),
        ("`iptables -S`", printed(&saved)),
        ("`iptables -L -n -v`", listing("L-n-v-x")),
        ("`iptables -L`", listing("L")),
        ("`nft list ruleset`", ruleset.clone()),
        ("of iptables-nft", output("iptables-nft-restore && nft list ruleset", &saved)),
        ("`nft -j`", json_of(&ruleset)),
        ("YAML", OBJECTS.to_owned()),
        ("JSON", LIST.to_owned()),
        ("`kubectl get -o wide`", WIDE.to_owned()),
        ("EndpointSlices", SLICES.to_owned()),
        ("`kubectl describe`", DESCRIBED.to_owned()),
        ("kube-proxy log", LOG.to_owned()),
        ("kube-proxy configuration", CONFIGURATION.to_owned()),
        ("`conntrack -L`", CONNECTIONS.to_owned()),
        ("`conntrack -E`", EVENTS.to_owned()),
        ("`ip addr`", ADDRESSES.to_owned()),
        ("`ip route`", ROUTES.to_owned()),
        ("`ip rule`", POLICY.to_owned()),
        ("`ip -j`", LINKS.to_owned()),
        ("`ipset save`", SETS.to_owned()),
        ("tcpdump", PACKETS.to_owned()),
        (ARCHIVE, saved),
    ]
}

const OBJECTS: &str = "\
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: shop
spec:
  clusterIP: 10.96.0.80
  ports:
  - port: 80
    targetPort: 8080
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-x2z
  namespace: shop
  labels: {kubernetes.io/service-name: web}
addressType: IPv4
ports:
- port: 8080
endpoints:
- addresses: [\"10.244.1.5\"]
";

const LIST: &str = include_str!("../../../src/evidence/tests/list.json");

const WIDE: &str = "\
NAMESPACE     NAME                      READY   STATUS    RESTARTS      AGE   IP            NODE       NOMINATED NODE   READINESS GATES
shop          web-5d4f8c7b9d-2xk8p      1/1     Running   0             12d   10.244.1.5    worker-1   <none>           <none>
shop          web-5d4f8c7b9d-9qv7z      1/1     Running   2 (3h ago)    12d   10.244.2.7    worker-2   <none>           <none>
kube-system   coredns-76f75df574-6rj4w  0/1     Pending   0             12d   <none>        <none>     <none>           <none>
";

const SLICES: &str = "\
NAMESPACE     NAME             ADDRESSTYPE   PORTS        ENDPOINTS                AGE
shop          web-x2z9v        IPv4          8080         10.244.1.5,10.244.2.7    12d
kube-system   kube-dns-7k2mq   IPv4          9153,53,53   10.244.1.2,10.244.3.2    12d
";

const DESCRIBED: &str = "\
Name:                     web
Namespace:                shop
Labels:                   app=web
Annotations:              <none>
Selector:                 app=web
Type:                     NodePort
IP Family Policy:         SingleStack
IP Families:              IPv4
IP:                       10.96.0.80
IPs:                      10.96.0.80
Port:                     http  80/TCP
TargetPort:               8080/TCP
NodePort:                 http  30080/TCP
Endpoints:                10.244.1.5:8080,10.244.2.7:8080
Session Affinity:         None
External Traffic Policy:  Cluster
Events:                   <none>
";

const LOG: &str = "\
I0614 12:34:56.789012       1 server_linux.go:69] \"Using iptables proxy\"
I0614 12:34:56.801233       1 conntrack.go:58] \"Setting nf_conntrack_max\" nfConntrackMax=131072
E0614 12:35:57.789012       1 proxier.go:1634] \"Failed to execute iptables-restore\" err=\"exit status 1: iptables-restore: line 27 failed\"
";

const CONFIGURATION: &str = "\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clusterCIDR: 10.244.0.0/16
mode: iptables
iptables:
  masqueradeAll: false
  masqueradeBit: 14
nodePortAddresses: null
";

const CONNECTIONS: &str = "\
udp      17 29 src=10.244.1.3 dst=10.96.0.10 sport=40000 dport=53 [UNREPLIED] src=10.244.2.2 dst=10.244.1.3 sport=53 dport=40000 mark=0 use=1
tcp      6 431999 ESTABLISHED src=10.244.1.3 dst=10.96.0.80 sport=41000 dport=80 src=10.244.1.5 dst=10.244.1.3 sport=8080 dport=41000 [ASSURED] mark=0 use=1
tcp      6 118 SYN_SENT src=10.244.1.3 dst=10.96.0.80 sport=41002 dport=80 [UNREPLIED] src=10.96.0.80 dst=10.244.1.3 sport=80 dport=41002 mark=0 use=1
";

const EVENTS: &str = "\
    [NEW] udp      17 30 src=10.244.1.3 dst=10.96.0.10 sport=40000 dport=53 [UNREPLIED] src=10.244.2.2 dst=10.244.1.3 sport=53 dport=40000
 [UPDATE] udp      17 30 src=10.244.1.3 dst=10.96.0.10 sport=40000 dport=53 src=10.244.2.2 dst=10.244.1.3 sport=53 dport=40000
[DESTROY] udp      17 src=10.244.1.3 dst=10.96.0.10 sport=40000 dport=53 src=10.244.2.2 dst=10.244.1.3 sport=53 dport=40000
";

const ADDRESSES: &str = "\
1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000
    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00
    inet 127.0.0.1/8 scope host lo
       valid_lft forever preferred_lft forever
2: eth0@if5: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP group default
    link/ether 02:42:ac:12:00:02 brd ff:ff:ff:ff:ff:ff link-netnsid 0
    inet 172.18.0.2/16 brd 172.18.255.255 scope global eth0
       valid_lft forever preferred_lft forever
";

const ROUTES: &str = "\
default via 172.18.0.1 dev eth0
10.244.0.2 dev vethd4e5f6a1 scope host
10.244.1.0/24 via 172.18.0.3 dev eth0
172.18.0.0/16 dev eth0 proto kernel scope link src 172.18.0.2
";

const POLICY: &str = "\
0:\tfrom all lookup local
100:\tfrom all fwmark 0x200/0xf00 lookup 2004
32766:\tfrom all lookup main
32767:\tfrom all lookup default
";

const LINKS: &str = r#"[
    {"dst": "default", "gateway": "172.18.0.1", "dev": "eth0", "flags": []},
    {"dst": "10.244.1.0/24", "gateway": "172.18.0.3", "dev": "eth0", "flags": []},
    {"dst": "172.18.0.0/16", "dev": "eth0", "protocol": "kernel", "scope": "link", "prefsrc": "172.18.0.2", "flags": []}
]
"#;

const SETS: &str = "\
create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536
add KUBE-CLUSTER-IP 10.96.0.1,tcp:443
add KUBE-CLUSTER-IP 10.96.0.10,udp:53
add KUBE-CLUSTER-IP 10.96.0.80,tcp:80
";

const PACKETS: &str = "\
12:00:00.000001 IP 10.244.1.3.37328 > 10.96.0.80.80: Flags [S], seq 1, win 64240, options [mss 1460,sackOK], length 0
12:00:00.000104 IP 10.244.1.3.37328 > 10.244.1.5.8080: Flags [S], seq 1, win 64240, options [mss 1460,sackOK], length 0
12:00:00.000207 IP 10.244.1.5.8080 > 10.244.1.3.37328: Flags [S.], cksum 0x191b (incorrect -> 0x8a59), seq 7, ack 2, length 0
";
