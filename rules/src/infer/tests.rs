use super::Infer;
use crate::cluster::Family;
use crate::iptables::parse;

/// A service port's rules are read back whatever chains they are in.
#[test]
fn a_service_is_read_from_its_rules() {
    let text = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-NODEPORTS - [0:0]\n:KUBE-SVC-CDGGSHYLG3RE2FKL - [0:0]\n\
        :KUBE-SEP-GWQABTP5GBYXHJY5 - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n\
        -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
        -A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"default/web:http cluster IP\" -m tcp --dport 80 \
        -j KUBE-SVC-CDGGSHYLG3RE2FKL\n\
        -A KUBE-NODEPORTS -p tcp -m comment --comment \"default/web:http\" -m tcp --dport 30080 -j KUBE-SVC-CDGGSHYLG3RE2FKL\n\
        -A KUBE-SVC-CDGGSHYLG3RE2FKL ! -s 10.244.0.0/16 -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-MARK-MASQ\n\
        -A KUBE-SVC-CDGGSHYLG3RE2FKL -j KUBE-SEP-GWQABTP5GBYXHJY5\n\
        -A KUBE-SEP-GWQABTP5GBYXHJY5 -p tcp -m tcp -j DNAT --to-destination 10.244.1.10:8080\nCOMMIT\n";
    let shown = parse(text, Family::Ipv4).expect("rules").rules.infer();
    let [port] = shown.ports.as_slice() else { panic!("{shown:?}") };
    assert_eq!((port.service.to_string().as_str(), port.name.as_str(), port.port), ("default/web", "http", Some(80)));
    assert_eq!(port.node_port, Some(30080));
    assert!(port.endpoints.contains(&"10.244.1.10:8080".parse().expect("an address")) && port.endpoints.len() == 1);
    assert_eq!(shown.proxy.masquerade_bit, Some(14));
    assert!(shown.proxy.local_sources.contains(&"10.244.0.0/16".parse().expect("a range")));
    assert!(!shown.proxy.masquerades_all);
}
