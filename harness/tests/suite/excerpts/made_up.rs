//! What is made up because a text does not show it is never a defect.

use rstest::rstest;

use super::{failures, grave, imported};
use crate::assumptions;

/// The pods of a node, as a table shows them.
const PODS: &str = "$ kubectl get pods -o wide
NAME    READY   STATUS    RESTARTS   AGE   IP            NODE
web-1   1/1     Running   0          33m   10.244.0.8    pi
web-2   1/1     Running   0          33m   10.244.0.10   pi
";

/// A listing of kube-proxy 1.36 or later that ends before the chains of services.
const LISTING: &str = "$ sudo nft list table ip kube-proxy
table ip kube-proxy {
	set hairpin-connections {
		type ipv4_addr . ipv4_addr . inet_proto . inet_service
		comment \"service hairpin connections\"
		elements = { 10.244.0.8 . 10.244.0.8 . tcp . 9898,
			     10.244.0.10 . 10.244.0.10 . tcp . 9898 }
	}

	map service-ips {
		type ipv4_addr . inet_proto . inet_service : verdict
		comment \"ClusterIP, ExternalIP and LoadBalancer IP traffic\"
		elements = { 10.100.192.23 . tcp . 80 : goto service-YVSKLJHA-kproxy-lab/backend-api/tcp/http,
			     10.96.0.1 . tcp . 443 : goto service-2QRHZV4L-default/kubernetes/tcp/https }
	}
}
";

/// The set of hairpin connections lists the endpoints of its node, with their ports: an endpoint that is made up is elsewhere, or is in it.
#[rstest]
#[case::rules(
    String::new(),
    "endpoints of kproxy-lab/backend-api:http, from `hairpin-connections`: 10.244.0.8:9898, 10.244.0.10:9898"
)]
#[case::pods(PODS.to_owned(), "endpoint 10.244.1.10 on node-2 of default/kubernetes,")]
#[case::one_node(format!("$ kubectl get nodes\nNAME   STATUS   ROLES    AGE   VERSION\npi     Ready    <none>   1d    v1.36.2\n{PODS}"), "node-2, which is made up")]
fn endpoints_of_hairpin_connections(#[case] before: String, #[case] expected: &str) {
    let text = format!("{before}{LISTING}");
    let assumed = imported(&text);
    let said = assumptions(&assumed).join("\n");
    assert!(said.contains(expected) && said.contains("which generates the same rules"), "{said}");
    let of = |name: &str| {
        let slices = assumed.scenario.cluster.slices.iter().filter(move |slice| slice.service.name == name);
        slices.flat_map(|slice| &slice.ports).filter_map(|port| port.port).collect::<Vec<_>>()
    };
    assert_eq!(of("backend-api"), [9898], "{said}");
    assert_eq!((failures(&assumed), grave(&text)), (Vec::new(), Vec::new()), "{said}");
}

/// Rules of a node that knows its pods by a bridge, up to the masquerade rule of an endpoint's chain.
#[test]
fn a_text_that_ends_after_a_masquerade_rule() {
    let saved = std::fs::read_to_string("../rules/tests/golden/config-local-bridge/v1.30-iptables/iptables-save.txt");
    let saved = saved.expect("a recording");
    let starts: Vec<usize> = saved.match_indices("-A KUBE-SEP-").map(|(at, _)| at).collect();
    assert!(starts.len() > 5, "{saved}");
    for start in starts.into_iter().step_by(EACH) {
        // At the end of the line before, within the name of the chain, and within the comment.
        for end in [start, start + 15, start + 40, start + 70] {
            let text = &saved[..end.min(saved.len())];
            let assumed = imported(text);
            let said = assumptions(&assumed).join("\n");
            assert_eq!((failures(&assumed), grave(text)), (Vec::new(), Vec::new()), "{said}\n{text}");
        }
    }
}

/// How many places of a recording stand for each that is tried.
const EACH: usize = 4;

/// A line that is cut within the name of an endpoint's chain names no other endpoint.
#[test]
fn a_text_that_ends_within_the_name_of_an_endpoint() {
    let saved = std::fs::read_to_string("../rules/tests/golden/small-cluster/v1.30-iptables/iptables-save.txt");
    let saved = saved.expect("a recording");
    let names: Vec<usize> = saved.match_indices("-j KUBE-SEP-").map(|(at, _)| at).collect();
    assert!(names.len() > 2 * EACH, "{saved}");
    for end in names.into_iter().step_by(EACH).flat_map(|at| [at + 4, at + 12, at + 17, at + 27]) {
        let text = &saved[..end];
        let assumed = imported(text);
        let said = assumptions(&assumed).join("\n");
        assert_eq!((failures(&assumed), grave(text)), (Vec::new(), Vec::new()), "{said}\n{text}");
    }
}

/// Names of services with a colon at the end and without, and endpoints of both that nothing but the names of their chains shows.
const MIXED_NAMES: &str = r#"```
-A KUBE-NODEPORTS -p tcp -m comment --comment "default/hello-world" -m tcp --dport 30610 -j KUBE-MARK-MASQ
-A KUBE-NODEPORTS -p tcp -m comment --comment "default/hello-world" -m tcp --dport 30610 -j KUBE-SVC-DZ6LTOHRG6HQWHYE
-A KUBE-SVC-DZ6LTOHRG6HQWHYE -m comment --comment "default/hello-world" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-ZI6BFS3EG32KA2XC
-A KUBE-SVC-DZ6LTOHRG6HQWHYE -m comment --comment "default/hello-world" -j KUBE-SEP-65EI7GDZIRLR2RCT
-A KUBE-SEP-ZI6BFS3EG32KA2XC -s 10.42.0.4/32 -m comment --comment "default/hello-world" -j KUBE-MARK-MASQ
-A KUBE-SEP-ZI6BFS3EG32KA2XC -p tcp -m comment --comment "default/hello-world" -m tcp -j DNAT --to-destination 10.42.0.4:8080
```
```yaml
apiVersion: v1
kind: Service
metadata:
  name: redis-sa
spec:
  sessionAffinity: ClientIP
  ports:
  - port: 6379
```
```
-A KUBE-SVC-YUZPDSCUOF7FG5LD -m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-6MUUJB4K75LGZXHS --mask 255.255.255.255 --rsource -j KUBE-SEP-6MUUJB4K75LGZXHS
-A KUBE-SVC-YUZPDSCUOF7FG5LD -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-6MUUJB4K75LGZXHS
-A KUBE-SVC-YUZPDSCUOF7FG5LD -j KUBE-SEP-F5DCISRHJOTG66JA
-A KUBE-SEP-6MUUJB4K75LGZXHS -s 10.244.1.69/32 -j KUBE-MARK-MASQ
-A KUBE-SEP-6MUUJB4K75LGZXHS -p tcp -m recent --set --name KUBE-SEP-6MUUJB4K75LGZXHS --mask 255.255.255.255 --rsource -m tcp -j DNAT --to-destination 10.244.1.69:6379
```
```
-A KUBE-SERVICES -d 10.0.8.126/32 -p tcp -m comment --comment "default/redis-none: has no endpoints" -m tcp --dport 6379 -j REJECT --reject-with icmp-port-unreachable
```
"#;

/// A chain whose endpoint nothing shows keeps its name, whatever name the release writes for its service.
#[test]
fn endpoints_that_nothing_shows_of_services_in_both_forms() {
    let assumed = imported(MIXED_NAMES);
    let said = assumptions(&assumed).join("\n");
    assert!(!said.contains("is empty"), "{said}");
    assert_eq!((failures(&assumed), grave(MIXED_NAMES)), (Vec::new(), Vec::new()), "{said}");
}
