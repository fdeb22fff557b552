//! What findings are about.

use svclab_rules::cluster::Protocol;
use svclab_rules::compare::Subject;
use svclab_rules::iptables::ChainHash;

use super::*;

/// A finding about a Service says nothing of another one whose name starts the same, nor of another port.
#[rstest]
#[case::other_service("default/web-2", "default/web", false)]
#[case::other_port("default/web:https", "default/web:http", false)]
#[case::same("default/web:http", "default/web:http", true)]
#[case::all_ports("default/web", "default/web:http", true)]
#[case::older_name("default/web:", "default/web", true)]
fn a_finding_is_about_its_service(#[case] own: &str, #[case] other: &str, #[case] expected: bool) {
    let finding = Finding::new("deviation", Place { file: None, line: 1 }, "", "");
    let finding = finding.about([Subject::Service(own.to_owned())]);
    assert_eq!(finding.is_about(&Subject::Service(other.to_owned())), expected);
}

/// The rules of a chain are about the service port in its name.
#[rstest]
#[case::iptables("KUBE-EXT-CDGGSHYLG3RE2FKL", Some("CDGGSHYLG3RE2FKL"))]
#[case::nftables("external-VKUGDMA2-ingress/ingress/tcp/http", Some("ingress/ingress:http"))]
#[case::unnamed_port("service-2MXU4Q2H-shop/sessions/tcp/", Some("shop/sessions"))]
#[case::endpoint("endpoint-BW42SQEO-default/unready/tcp/http__10.244.2.15/8080", None)]
#[case::structure("service-endpoints-check", None)]
fn the_name_of_a_chain_shows_its_service_port(#[case] chain: &str, #[case] expected: Option<&str>) {
    let expected = expected.map(|name| Subject::Service(name.to_owned()));
    assert_eq!(finding::service_of_chain(chain), expected);
}

/// A lost rule of a Service is an error, whatever is wrong with another one, or with another port.
#[rstest]
#[case::other_service("default/web-2:http", ("10.96.0.10", "10.96.0.11"))]
#[case::other_port("default/web:http-2", ("--dport 80 ", "--dport 81 "))]
fn defects_of_other_services_hide_none(#[case] other: &str, #[case] frontend: (&str, &str)) {
    let path = "../rules/tests/golden/clusterip-one-endpoint/v1.30-iptables/iptables-save.txt";
    let text = std::fs::read_to_string(path).unwrap();
    let own = text.lines().filter(|line| line.contains("default/web:http") || line.starts_with(":KUBE-S"));
    let own: Vec<&str> =
        own.filter(|line| line.starts_with("-A ") || line.contains("-CDGG") || line.contains("-IQIB")).collect();
    let endpoint = "10.244.2.11:8080";
    let of_port = ChainHash::for_service_port(other, Protocol::Tcp).to_string();
    let of_endpoint = ChainHash::for_endpoint(other, Protocol::Tcp, endpoint).to_string();
    let names = [
        ("default/web:http", other),
        ("CDGGSHYLG3RE2FKL", &of_port),
        ("IQIBSY2R4USWK4F3", &of_endpoint),
        frontend,
        ("10.244.2.10", "10.244.2.11"),
    ];
    let renamed = |line: &str| names.iter().fold(line.to_owned(), |line, (old, new)| line.replace(old, new));
    // Next to its own, each line of the other one; the DNAT of the other one is for another protocol.
    let with_other = |line: &str| match own.contains(&line) {
        true if line.contains("-j DNAT") => format!("{line}\n{}\n", renamed(line).replace("tcp", "udp")),
        true => format!("{line}\n{}\n", renamed(line)),
        false => format!("{line}\n"),
    };
    let text: String = text.lines().map(with_other).collect();
    let lost: String = text
        .lines()
        .filter(|line| !(line.starts_with("-A KUBE-SERVICES ") && line.contains("\"default/web:http cluster IP")))
        .map(|line| format!("{line}\n"))
        .collect();
    let errors = |text: &str| {
        let found = lint(&read(text));
        let errors = found.into_iter().filter(|one| one.severity == Severity::Error);
        errors.map(|one| one.id).collect::<Vec<_>>()
    };
    assert_eq!(errors(&text), ["dnat-protocol"]);
    assert_eq!(errors(&lost), ["dnat-protocol", "missing-rule"]);
}
