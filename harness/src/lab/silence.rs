//! Silences the kernels of pods and outside hosts while svclab sends and answers in their place.

use super::namespaces::Namespace;
use super::netfilter::{self, Batch};
use super::{Lab, LabError};
use crate::topology::Role;

/// The nftables table that drops everything.
const TABLE: &str = "svclab-silence";

/// Constants of `linux/netfilter/nf_tables.h` and `linux/netfilter.h`.
mod uapi {
    pub(super) const NFT_MSG_NEWTABLE: u8 = 0;
    pub(super) const NFT_MSG_DELTABLE: u8 = 2;
    pub(super) const NFT_MSG_NEWCHAIN: u8 = 3;
    pub(super) const NFTA_TABLE_NAME: u16 = 1;
    pub(super) const NFTA_CHAIN_TABLE: u16 = 1;
    pub(super) const NFTA_CHAIN_NAME: u16 = 3;
    pub(super) const NFTA_CHAIN_HOOK: u16 = 4;
    pub(super) const NFTA_CHAIN_POLICY: u16 = 5;
    pub(super) const NFTA_CHAIN_TYPE: u16 = 7;
    pub(super) const NFTA_HOOK_HOOKNUM: u16 = 1;
    pub(super) const NFTA_HOOK_PRIORITY: u16 = 2;
    pub(super) const NLA_F_NESTED: u16 = 1 << 15;
    pub(super) const NFPROTO_INET: u8 = 1;
    pub(super) const NF_INET_PRE_ROUTING: u32 = 0;
    pub(super) const NF_INET_LOCAL_OUT: u32 = 3;
    pub(super) const NF_DROP: u32 = 0;
}

impl Lab {
    /// Makes the kernels of pods and outside hosts that have a stack ([`with_stacks`](crate::topology::with_stacks)) drop everything they
    /// receive and send, or stops that. Packet sockets receive packets before they are dropped and send past netfilter, so probes are not
    /// affected; connections of programs continue afterwards.
    ///
    /// # Errors
    ///
    /// If the kernel has no nftables.
    pub(crate) fn silence(&self, on: bool) -> Result<(), LabError> {
        if !self.topology.has_stacks {
            return Ok(());
        }
        let batch = if on { silencing() } else { ending() };
        let all = self.topology.namespaces.iter().zip(self.namespaces.iter());
        for (_, namespace) in all.filter(|(netns, _)| matches!(netns.role, Role::Pod | Role::Host)) {
            carry_out(namespace, &batch)?;
        }
        Ok(())
    }
}

fn carry_out(namespace: &Namespace, batch: &Batch) -> Result<(), LabError> {
    let sent = namespace.run(|| netfilter::Socket::open(0)?.commit(batch))?;
    sent.map_err(LabError::socket(namespace.name(), "silencing the kernel with nftables"))
}

fn silencing() -> Batch {
    use uapi::*;
    let mut batch = Batch::default();
    batch.create(NFT_MSG_NEWTABLE, NFPROTO_INET, &text(NFTA_TABLE_NAME, TABLE));
    for (name, hook) in [("in", NF_INET_PRE_ROUTING), ("out", NF_INET_LOCAL_OUT)] {
        // Before all other chains, and before connection tracking.
        let hook = [word(NFTA_HOOK_HOOKNUM, hook), word(NFTA_HOOK_PRIORITY, i32::MIN.cast_unsigned())].concat();
        let attributes = [
            text(NFTA_CHAIN_TABLE, TABLE),
            text(NFTA_CHAIN_NAME, name),
            netfilter::encode(NFTA_CHAIN_HOOK | NLA_F_NESTED, &hook),
            word(NFTA_CHAIN_POLICY, NF_DROP),
            text(NFTA_CHAIN_TYPE, "filter"),
        ];
        batch.create(NFT_MSG_NEWCHAIN, NFPROTO_INET, &attributes.concat());
    }
    batch
}

fn ending() -> Batch {
    let mut batch = Batch::default();
    batch.change(uapi::NFT_MSG_DELTABLE, uapi::NFPROTO_INET, &text(uapi::NFTA_TABLE_NAME, TABLE));
    batch
}

fn text(kind: u16, text: &str) -> Vec<u8> {
    netfilter::encode(kind, &[text.as_bytes(), b"\0"].concat())
}

fn word(kind: u16, value: u32) -> Vec<u8> {
    netfilter::encode(kind, &value.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::path::Path;
    use std::time::Duration;

    use crate::lab::{Backend, with_lab};
    use crate::{scenario, testing, topology};

    /// An open connection stays open, but nothing gets through in the meantime.
    #[test]
    fn a_silent_kernel_neither_sends_nor_receives() {
        let text = "name: two pods
cluster: {podCIDR: [10.244.0.0/16, 'fd00:10:244::/56']}
nodes: [{name: node, ips: [172.18.0.2, 'fd00:172:18::2'], podCIDRs: [10.244.0.0/24, 'fd00:10:244::/64']}]
pods: [{name: a, ips: [10.244.0.2, 'fd00:10:244::2']}, {name: b, ips: [10.244.0.3, 'fd00:10:244::3']}]
tests: [{name: none, probe: {from: pod/a, to: 'pod/b:80'}, expect: {delivered: 'pod/b:80'}}]";
        let no_files = |_: &Path| Err(ErrorKind::NotFound.into());
        let scenario = scenario::parse(text, Path::new("inline.yaml"), &no_files).unwrap_or_else(|all| panic!("{all}"));
        let plan = topology::with_stacks(topology::plan(&scenario));
        let [a, b] = ["pod/a", "pod/b"].map(|name| plan.find(name).expect("planned"));
        let in_lab = |lab: &mut crate::lab::Lab| {
            for address in ["10.244.0.3:80", "[fd00:10:244::3]:80"] {
                let listener = lab.inside(b, || TcpListener::bind(address)).expect("a namespace").expect("a listener");
                let client = lab.inside(a, || TcpStream::connect(address)).expect("a namespace");
                let (mut client, mut server) =
                    (client.expect("a connection"), listener.accept().expect("it is there").0);
                lab.silence(true).expect("nftables");
                server.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
                client.write_all(b"x").expect("a buffer");
                assert_eq!(server.read(&mut [0]).expect_err("nothing gets through").kind(), ErrorKind::WouldBlock);
                lab.silence(false).expect("nftables");
                server.set_read_timeout(None).expect("a socket");
                assert_eq!(server.read(&mut [0]).expect("it is sent again"), 1);
            }
        };
        testing::privileged(|| with_lab(&plan, &[], Backend::System, in_lab).expect("a lab"));
    }
}
