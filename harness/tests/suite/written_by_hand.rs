//! Notes and articles about kube-proxy's rules: shortened, out of order, of several nodes and times.

use rstest::rstest;
use svclab::evidence::read;
use svclab::lint::lint;
use svclab_rules::iptables::ChainKind;

use crate::pasted::{chain, endpoint, grave, verified};

fn comment(words: &str) -> String {
    format!("-m comment --comment \"{words}\"")
}

/// The rules of a Service with a node port and one endpoint, as releases from 1.19 on name it, or with a colon as older ones do.
fn service(name: &str, node_port: u16, to: &str) -> String {
    let (service, endpoint, said) = (chain(ChainKind::Service, name), endpoint(name, to), comment(name));
    let ip = to.split(':').next().unwrap();
    let from = format!("-A KUBE-NODEPORTS -p tcp {said} -m tcp --dport {node_port}");
    format!(
        "{from} -j KUBE-MARK-MASQ\n{from} -j {service}\n-A {service} {said} -j {endpoint}\n\
         -A {endpoint} -s {ip}/32 {said} -j KUBE-MARK-MASQ\n-A {endpoint} -p tcp {said} -m tcp -j DNAT --to-destination {to}\n"
    )
}

/// The name of a port without a name has a colon at its end up to 1.18. A text may have both: rules are compared by their own form.
#[rstest]
#[case::older_rejected("default/web", "default/cache:")]
#[case::newer_rejected("default/web:", "default/cache")]
fn both_forms_of_a_name_may_be_in_a_text(#[case] name: &str, #[case] rejected: &str) {
    let text = format!(
        "```\n{}```\n```\n-A KUBE-SERVICES -d 10.96.0.66/32 -p tcp {} -m tcp --dport 6379 -j REJECT --reject-with icmp-port-unreachable\n```\n",
        service(name, 30080, "10.244.1.5:80"),
        comment(&format!("{rejected} has no endpoints"))
    );
    assert_eq!(grave(&text), Vec::<String>::new());
    let (said, code) = verified(&text, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("is unexpected"), "{said}");
}

/// An article shows the chain of a node with policy Local after the rules with policy Cluster.
#[test]
fn a_chain_of_the_other_policy_is_left_out() {
    let name = "default/web:";
    let local = chain(ChainKind::ExternalLocal, name);
    let text = format!(
        "```\n{}```\nWith policy Local, a node without endpoints has:\n```\n-A {local} {} -j KUBE-MARK-DROP\n```\n",
        service(name, 30080, "10.244.1.5:80"),
        comment("default/web: has no local endpoints")
    );
    assert_eq!(grave(&text), Vec::<String>::new());
    let (said, code) = verified(&text, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("left out: chain {local} from line 10 on")), "{said}");
}

/// Where rules lead to it, it is the Service's own.
#[test]
fn a_chain_of_policy_local_that_is_used_is_kept() {
    let name = "default/web:";
    let local = chain(ChainKind::ExternalLocal, name);
    let dropped = comment("default/web: has no local endpoints");
    let text = format!(
        "```\n-A KUBE-NODEPORTS -p tcp {} -m tcp --dport 30080 -j {local}\n-A {local} {dropped} -j KUBE-MARK-DROP\n```\n",
        comment(name)
    );
    let (said, _) = verified(&text, &[]);
    assert!(!said.contains("left out: chain"), "{said}");
}

/// Rules of two nodes: that of which they say that no endpoint is local has none of those that the other one shows.
#[test]
fn a_node_without_local_endpoints_has_none() {
    let name = "default/web:";
    let (local, remote) = ("10.244.2.8:80", "10.244.1.10:80");
    let [service, external] = [ChainKind::Service, ChainKind::ExternalLocal].map(|kind| chain(kind, name));
    let [here, there] = [local, remote].map(|to| endpoint(name, to));
    let translated = |chain: &str, to: &str| {
        let ip = to.split(':').next().unwrap();
        format!(
            "-A {chain} -s {ip}/32 {0} -j KUBE-MARK-MASQ\n-A {chain} -p tcp {0} -m tcp -j DNAT --to-destination {to}\n",
            comment(name)
        )
    };
    let from_pods = format!(
        "-A KUBE-NODEPORTS -p tcp {} -m tcp --dport 30000 -j {external}\n-A {external} -s 10.244.0.0/16 {} -j {service}\n",
        comment(name),
        comment("Redirect pods trying to reach external loadbalancer VIP to clusterIP")
    );
    let balanced = format!(
        "-A {service} {0} -m statistic --mode random --probability 0.50000000000 -j {there}\n-A {service} {0} -j {here}\n{1}{2}",
        comment(name),
        translated(&here, local),
        translated(&there, remote)
    );
    let text = format!(
        "On Node1:\n```\n{from_pods}-A {external} {} -j {here}\n{balanced}```\nOn Node3:\n```\n{from_pods}-A {external} {} -j KUBE-MARK-DROP\n{balanced}```\n",
        comment("Balancing rule 0 for default/web:"),
        comment("default/web: has no local endpoints")
    );
    let (said, _) = verified(&text, &[]);
    assert!(!said.contains("promised delivered to 10.244.1.10"), "{said}");
    assert!(said.contains("are those of nodes node1, node3"), "{said}");
}

/// Notes have few decimals.
#[test]
fn a_shortened_probability_is_no_defect() {
    let name = "default/web";
    let all: Vec<String> = (1..4).map(|last| format!("10.244.{last}.2:80")).collect();
    let chains: Vec<String> = all.iter().map(|to| endpoint(name, to)).collect();
    let service = chain(ChainKind::Service, name);
    let share = |number: &str| format!("-m statistic --mode random --probability {number}");
    let mut text = format!("```\n-A KUBE-SERVICES -d 10.96.0.5/32 -p tcp --dport 80 -j {service}\n");
    for (share, chain) in [share("0.333"), share("0.500"), String::new()].iter().zip(&chains) {
        text += &format!("-A {service} {share} -j {chain}\n");
    }
    for (to, chain) in all.iter().zip(&chains) {
        text += &format!("-A {chain} -p tcp -j DNAT --to-destination {to}\n");
    }
    text += "```\n";
    assert_eq!(grave(&text), Vec::<String>::new());
    assert!(!grave(&text.replace("0.333", "0.4")).is_empty());
    // A sketch of a policy's rules, which are in filter.
    let sketch = "```\n-A cali-tw-veth0 -j DROP\n```\n";
    let (said, code) = verified(&(text + sketch), &[]);
    assert!(!said.contains("inhibited") && code != Some(2), "{said}");
}

/// What the same command prints later is of another time.
#[test]
fn what_a_command_prints_later_is_of_another_time() {
    let before = service("default/web", 30080, "10.244.1.5:80");
    let after = before.replace("KUBE-SVC-", "KUBE-SVL-").replace("10.244.1.5", "10.244.1.6");
    let command = "$ iptables-save | grep default/web";
    let text = format!("```\n{command}\n{before}```\nThen I changed it.\n```\n{command}\n{after}```\n");
    let (said, _) = verified(&text, &[]);
    assert!(said.contains("are printed by the same command like those from line 3"), "{said}");
    assert!(!said.contains("10.244.1.6"), "{said}");
    assert!(!lint(&read(&text)).iter().any(|finding| finding.id == "cut-off"));
}

/// The text ends within code: the last output may lack any line.
#[test]
fn a_text_that_ends_within_code_is_cut() {
    let rules = service("default/web", 30080, "10.244.1.5:80");
    let last = "-A KUBE-SERVICES -m comment --comment \"kubernetes service nodeports\" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\n";
    let first = "-A KUBE-SERVICES -d 10.96.0.9/32 -p tcp -m comment --comment \"default/shop cluster IP\" -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA\n";
    let text = format!(
        "```\n[root@n1 ~]# iptables-save | grep KUBE-NODEPORTS\n{}{last}```\n```\n[root@n1 ~]# iptables-save | grep KUBE-SERVICES\n{first}",
        rules.lines().take(2).map(|line| format!("{line}\n")).collect::<String>()
    );
    assert!(!verified(&text, &[]).0.contains("at another time"));
}

/// Hand-made names of chains, and the protocol of the Service in rules of its own chain, as in articles. That of another protocol takes no connection.
#[rstest]
#[case::of_the_service("tcp", true)]
#[case::of_no_connection("udp", false)]
fn a_service_s_protocol_in_its_own_chain_is_no_failure(#[case] protocol: &str, #[case] is_healthy: bool) {
    let columns = "target     prot opt source               destination\n";
    let endpoint = |name: &str, ip: &str| {
        format!(
            "Chain {name} (1 references)\n{columns}KUBE-MARK-MASQ  all  --  {ip}  0.0.0.0/0\n\
             DNAT       tcp  --  0.0.0.0/0  0.0.0.0/0  tcp dpt:80 to:{ip}:80\n\n"
        )
    };
    let text = format!(
        "```\n$ sudo iptables -t nat -L -n\n...\n{}{}Chain KUBE-SERVICES (1 references)\n{columns}\
         KUBE-SVC-WEBAPP  tcp  --  0.0.0.0/0  10.7.111.132  tcp dpt:80\n\nChain KUBE-SVC-WEBAPP (1 references)\n{columns}\
         KUBE-SEP-WEBAPP1  {protocol}  --  0.0.0.0/0  0.0.0.0/0  statistic mode random probability 0.50000000000\n\
         KUBE-SEP-WEBAPP2  {protocol}  --  0.0.0.0/0  0.0.0.0/0  statistic mode random probability 1.00000000000\n```\n",
        endpoint("KUBE-SEP-WEBAPP1", "10.5.41.204"),
        endpoint("KUBE-SEP-WEBAPP2", "10.5.41.5")
    );
    assert_eq!(grave(&text).is_empty(), is_healthy, "{:?}", grave(&text));
    let (said, code) = verified(&text, &[]);
    assert_eq!(code == Some(0), is_healthy, "{said}");
}

/// A list of Services that leads to none of them, nor to node ports, is shortened; kube-proxies of two nodes may have their own ranges of pods.
#[test]
fn rule_sets_of_nodes_with_their_own_pod_ranges_are_judged_separately() {
    let columns = "target     prot opt source               destination\n";
    let heading = format!("Chain KUBE-SERVICES (2 references)\n{columns}");
    let first = format!(
        "```\n{heading}KUBE-MARK-MASQ  tcp  -- !10.244.16.0/24  10.244.5.1  /* default/foo:http cluster IP */ tcp dpt:8080\n```\n"
    );
    let service = chain(ChainKind::Service, "default/nginx:http");
    let named = "10.101.28.148  /* default/nginx:http cluster IP */ tcp dpt:3080";
    let rows = format!("KUBE-MARK-MASQ  tcp  -- !172.16.0.0/16  {named}\n{service}  tcp  --  0.0.0.0/0  {named}\n");
    let whole = format!("```\n[root@n2 ~]# iptables -t nat -nL\n{heading}{rows}```\n");
    let filtered = format!("```\n[root@n2 ~]# iptables -t nat -nL KUBE-SERVICES | grep nginx\n{rows}```\n");
    for text in [&first, &format!("{first}{whole}"), &format!("{first}{filtered}")] {
        assert_eq!(grave(text), Vec::<String>::new(), "{text}");
        assert!(!verified(text, &[]).0.contains("FAIL"), "{}", verified(text, &[]).0);
    }
    // A list of all Services without that of the other rules is one of another cluster.
    let (said, _) = verified(&format!("{first}{whole}"), &[]);
    assert!(said.contains("have other Services and another range of pods than those from line 2"), "{said}");
    let of_n1 = first.replacen("Chain", "[root@n1 ~]# iptables -t nat -nL KUBE-SERVICES\nChain", 1);
    let (said, code) = verified(&format!("{of_n1}{filtered}"), &[]);
    assert!(code == Some(0) && said.contains("detectLocalMode NodeCIDR"), "{said}");
}
