use rstest::rstest;

use super::*;

fn iptables(rule: &str) -> Rules {
    let text = format!("*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING {rule}\nCOMMIT\n");
    Rules::parse(ProxyMode::Iptables, Family::Ipv4, &text).expect("rules")
}

fn other_tables(family: &str, chain: &str) -> Rules {
    let set = "set s {\n type ipv4_addr\n size 65535\n flags dynamic,timeout\n timeout 3h\n }";
    let text =
        format!("table {family} a {{\n {} chain c {{\n {chain}\n }}\n}}\n", if chain == "SET" { set } else { "" });
    Rules::parse_other_tables(&text.replace("SET", "accept")).expect("tables")
}

#[rstest]
#[case::recent(iptables("-m recent --set --name a"), true)]
#[case::its_name_in_a_comment(iptables("-m comment --comment \"-m recent\" -j RETURN"), false)]
#[case::none(iptables("-p tcp -j RETURN"), false)]
#[case::dynamic_set(other_tables("inet", "SET"), true)]
#[case::no_set(other_tables("inet", "accept"), false)]
fn rules_remember_clients(#[case] rules: Rules, #[case] expected: bool) {
    assert_eq!(rules.remembers(), expected);
}

#[rstest]
#[case::index("iif \"cni0\" accept", true)]
#[case::output_index("oif { \"cni0\", \"eth0\" } accept", true)]
#[case::opaque("meta iif . oif vmap { \"cni0\" . \"eth0\" : drop }", true)]
#[case::name("iifname \"cni0\" accept", false)]
fn an_index_needs_its_interface(#[case] rule: &str, #[case] expected: bool) {
    assert_eq!(other_tables("ip", rule).needs_interfaces(), expected);
}

#[test]
fn other_tables_are_installed_as_written_after_what_empties_them() {
    let text = "table inet a {\n chain c {\n  log prefix \"x\"\n }\n}\n";
    let rules = Rules::parse_other_tables(text).expect("tables");
    assert_eq!(rules.print_sync(), format!("table inet a {{\n}}\nflush table inet a\n{text}"));
    assert_eq!(rules.print(), text);
}

#[test]
fn what_is_installed_is_what_was_parsed() {
    let indented =
        "  *nat\n\t:PREROUTING ACCEPT [0:0]\n   -A PREROUTING  -p tcp   -m ttl --ttl-lt 5  -j RETURN \n  COMMIT";
    let rules = Rules::parse(ProxyMode::Iptables, Family::Ipv4, indented).expect("rules");
    let expected = "*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p tcp -m ttl --ttl-lt 5 -j RETURN\nCOMMIT\n";
    assert_eq!(rules.print_sync(), expected);
}

/// As with kube-proxy, an endpoint that returns has no recorded clients.
#[test]
fn sets_of_clients_that_are_not_used_any_more_are_deleted() {
    let tables = |sets: &[&str]| {
        let set = |name: &&str| {
            format!("set {name} {{\n type ipv4_addr\n size 65535\n flags dynamic,timeout\n timeout 3h\n }}\n")
        };
        let text: String = sets.iter().map(set).collect();
        let text = format!("table ip kube-proxy {{\n set cluster-ips {{\n type ipv4_addr\n }}\n{text}}}\n");
        Rules::parse(ProxyMode::Nftables, Family::Ipv4, &text).expect("tables")
    };
    let (before, after) = (tables(&["affinity-a", "affinity-b"]), tables(&["affinity-b"]));
    let deleted = |after: &Rules, before| after.print_sync_after(before).replacen(&after.print_sync(), "", 1);
    assert_eq!(deleted(&after, &before), "delete set ip kube-proxy affinity-a\n");
    assert_eq!(deleted(&before, &after), "");
    assert_eq!(iptables("-j ACCEPT").print_sync_after(&before).matches("delete").count(), 0);
}
