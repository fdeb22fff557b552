//! Texts that show a Service at two times, or two clusters: what is of one is no defect of the other.

use rstest::rstest;
use svclab_rules::iptables::ChainKind;

use crate::pasted::{chain, endpoint, grave, verified};

/// `kubectl get svc`, and listings of the chains of a Service with two endpoints.
fn shown(ip: &str, port: u16, endpoints: [&str; 2]) -> String {
    let name = "default/hello";
    let service = chain(ChainKind::Service, name);
    let [first, second] = endpoints.map(|to| endpoint(name, to));
    let columns = "target     prot opt source               destination\n";
    format!(
        "$ kubectl get svc\nNAME    TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nhello   ClusterIP   {ip}   <none>   {port}/TCP   5s\n\
         $ sudo iptables -t nat -L KUBE-SERVICES -n\nChain KUBE-SERVICES (2 references)\n{columns}\
         {service}  tcp  --  0.0.0.0/0  {ip}  /* {name} cluster IP */ tcp dpt:{port}\n\
         KUBE-NODEPORTS  all  --  0.0.0.0/0  0.0.0.0/0  /* kubernetes service nodeports; NOTE: this must be the last rule in this chain */ ADDRTYPE match dst-type LOCAL\n\
         $ sudo iptables -t nat -L {service} -n\nChain {service} (1 references)\n{columns}\
         KUBE-MARK-MASQ  tcp  -- !10.244.0.0/16  {ip}  /* {name} cluster IP */ tcp dpt:{port}\n\
         {first}  all  --  0.0.0.0/0  0.0.0.0/0  /* {name} -> {0} */ statistic mode random probability 0.50000000000\n\
         {second}  all  --  0.0.0.0/0  0.0.0.0/0  /* {name} -> {1} */\n",
        endpoints[0], endpoints[1]
    )
}

/// A Service that was deleted and created again has another cluster IP and other endpoints.
#[test]
fn a_service_that_was_created_again_is_judged_at_each_time() {
    let before = shown("10.107.138.203", 80, ["10.244.1.199:8080", "10.244.2.190:8080"]);
    let after = shown("10.111.34.177", 8080, ["10.244.1.200:8080", "10.244.2.192:8080"]);
    let text = format!("```\n{before}```\nThen I deleted it, and exposed it again.\n```\n{after}```\n");
    assert_eq!(grave(&text), Vec::<String>::new());
    let (said, code) = verified(&text, &["--allow-unknown"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("default/hello has the cluster IP 10.111.34.177, and 10.107.138.203 before"), "{said}");
    assert!(!said.contains("10.244.1.200"), "{said}");
    // A share that is wrong is found at each time.
    for part in [&before, &after] {
        let wrong = part.replace("probability 0.50000000000", "probability 0.33333333349");
        assert!(!grave(&text.replace(part.as_str(), &wrong)).is_empty());
    }
}

/// The list of all nodes has others: what follows is of another cluster. A node that is listed by its name is one of the same cluster.
#[rstest]
#[case::all("kubectl get nodes", true)]
#[case::by_name("kubectl get node minikube", false)]
fn nodes_of_another_cluster_are_set_apart(#[case] command: &str, #[case] is_other: bool) {
    let nodes = |command: &str, name: &str| {
        format!("$ {command}\nNAME   STATUS   ROLES    AGE   VERSION\n{name}   Ready    <none>   1d    v1.30.2\n")
    };
    let rules = shown("10.107.138.203", 80, ["10.244.1.199:8080", "10.244.2.190:8080"]);
    let text = format!(
        "```\n{}{rules}```\n```\n{}```\n",
        nodes("kubectl get nodes", "kind-control-plane"),
        nodes(command, "minikube")
    );
    let (said, _) = verified(&text, &["--allow-unknown"]);
    assert_eq!(said.contains("the nodes are minikube, and kind-control-plane before"), is_other, "{said}");
}

/// A filter that shows another rule for the same connections, and lacks the one that it would show, was run at another time.
#[test]
fn another_chain_for_the_same_connections_is_of_another_time() {
    let name = "games/web:";
    let [service, local] = [ChainKind::Service, ChainKind::ExternalLocal].map(|kind| chain(kind, name));
    let rule = |words: &str, to: &str| {
        format!("-A KUBE-NODEPORTS {words}-p tcp -m comment --comment \"{name}\" -m tcp --dport 30687 -j {to}\n")
    };
    let text = format!(
        "```\n# iptables-save | grep 30687\n{}{}```\nWith policy Cluster:\n```\n# iptables-save | grep -- '--dport 30687'\n{}{}```\n",
        rule("-s 127.0.0.0/8 ", "KUBE-MARK-MASQ"),
        rule("", &local),
        rule("", "KUBE-MARK-MASQ"),
        rule("", &service)
    );
    assert_eq!(grave(&text), Vec::<String>::new());
    let (said, code) = verified(&text, &["--allow-unknown"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("lead the same connections to other chains than those from line 3"), "{said}");
}

/// Rules that were saved before Services were created are not those of the Services that the text shows later.
#[rstest]
#[case::created_later(true)]
#[case::there_before(false)]
fn rules_before_a_service_is_created_lack_it(#[case] is_later: bool) {
    let saved =
        std::fs::read_to_string("../rules/tests/golden/clusterip-three-endpoints/v1.30-iptables/iptables-save.txt")
            .expect("a recording");
    let is_of_web = |line: &str| ["default/web", ":KUBE-SVC-", ":KUBE-SEP-"].iter().any(|word| line.contains(word));
    let before: String = saved.lines().filter(|line| !is_of_web(line)).map(|line| format!("{line}\n")).collect();
    let prompt = "root@n1:~# iptables-save";
    let object = "```\n$ kubectl get svc\nNAME   TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nweb    ClusterIP   10.96.0.10   <none>   80/TCP   5s\n```\n";
    let kubernetes = "-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment \"default/kubernetes:https cluster IP\" -m tcp --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y\n";
    let with = |saved: &str| saved.replacen("-A KUBE-SERVICES", &format!("{kubernetes}-A KUBE-SERVICES"), 1);
    let [first, second] = [with(&before), with(&saved)].map(|rules| {
        let declared = ":KUBE-SERVICES - [0:0]\n";
        format!(
            "```\n{prompt}\n{}```\n",
            rules.replace(declared, &format!("{declared}:KUBE-SVC-NPX46M4PTMTKRN6Y - [0:0]\n"))
        )
    });
    let text = if is_later { format!("{first}{object}{second}") } else { format!("{object}{first}{second}") };
    let (said, _) = verified(&text, &["--allow-unknown"]);
    assert!(said.contains("at another time"), "{said}");
    let is_used = |rules: &str| {
        let line = text[..text.find(rules).unwrap()].matches('\n').count() + 3;
        said.contains(&format!("the rules of node n1 are those from line {line},"))
    };
    assert!(is_used(if is_later { &second } else { &first }), "{said}");
}
