//! The host's kernel log: a lab writes only the unavoidable lines of its bridges there.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use svclab::Backend;
use svclab::{scenario, testing};

/// Six lines when a port is added and starts forwarding, three when it is removed.
const LINES: usize = 9;

/// Issue 10, number 19. A port whose peer is removed first has one more line.
#[test]
fn a_bridge_port_has_nine_lines() {
    // Other labs write to the same log, so the names of these ports are this process's own.
    let nodes = ["a", "b"].map(|name| format!("l{}{name}", std::process::id()));
    let mut log = match File::open("/dev/kmsg") {
        Ok(log) => log,
        Err(error) => {
            assert!(!nix::unistd::geteuid().is_root(), "root reads /dev/kmsg: {error}");
            return;
        }
    };
    log.seek(SeekFrom::End(0)).expect("the log's end");
    let text = format!(
        "name: two bridge ports
cluster: {{podCIDR: 10.244.0.0/16}}
nodes: [{{name: {0}, ip: 172.18.0.2}}, {{name: {1}, ip: 172.18.0.3}}]
pods: [{{name: client, node: {0}}}, {{name: server, node: {1}}}]
tests: [{{name: t, probe: {{from: pod/client, to: 'pod/server:80'}}, expect: {{delivered: 'pod/server:80'}}}}]",
        nodes[0], nodes[1]
    );
    let no_files = |_: &Path| Err(ErrorKind::NotFound.into());
    let scenario = scenario::parse(&text, Path::new("inline.yaml"), &no_files).expect("a scenario");
    testing::privileged(|| {
        let ports = nodes.map(|node| format!("to-{node}"));
        let reader = thread::spawn(move || lines_of_ports(log, &ports));
        testing::assert_scenario_holds(&scenario, Backend::System);
        for (port, lines) in reader.join().expect("the log is read") {
            assert!((LINES..=LINES + 1).contains(&lines.len()), "{port} has {} lines: {lines:#?}", lines.len());
        }
    });
}

/// The messages about each port, read until all ports are gone.
fn lines_of_ports(mut log: File, ports: &[String; 2]) -> BTreeMap<String, Vec<String>> {
    let mut lines: BTreeMap<String, Vec<String>> = ports.iter().map(|port| (port.clone(), Vec::new())).collect();
    let is_gone = |lines: &Vec<String>| {
        let left = lines.iter().position(|line| line.contains("left promiscuous"));
        left.is_some_and(|left| lines[left..].iter().any(|line| line.contains("disabled state")))
    };
    let mut record = [0; 8192];
    while !lines.values().all(is_gone) {
        let mut ready = [PollFd::new(log.as_fd(), PollFlags::POLLIN)];
        let count = poll(&mut ready, PollTimeout::from(60_000_u16)).expect("waiting for the log");
        assert!(count > 0, "the ports did not go: {lines:#?}");
        let length = log.read(&mut record).expect("a record of the log");
        let record = String::from_utf8_lossy(&record[..length]);
        let message = record.lines().next().and_then(|line| line.split_once(';')).map_or("", |(_, message)| message);
        if let Some(port) = ports.iter().find(|port| message.contains(port.as_str())) {
            lines.entry(port.clone()).or_default().push(message.to_owned());
        }
    }
    lines
}
