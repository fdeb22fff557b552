//! The state that nodes keep about earlier packets, and how to flush it.

use std::fs;
use std::io::{self, ErrorKind};

use svclab_rules::nftables;

use super::namespaces::{Namespace, find};
use super::programs::at_once;
use super::{Backend, Connections, Lab, LabError, install};
use crate::documents::Document;

/// The lists of the `recent` match in the reader's namespace.
const LISTS: &str = "/proc/thread-self/net/xt_recent";

impl Lab {
    /// Flushes the state about earlier packets in all namespaces that forward: connections, and clients in the lists of the `recent` match
    /// and in dynamic sets of nftables.
    ///
    /// # Errors
    ///
    /// If the kernel rejects it.
    pub(crate) fn forget(&self) -> Result<(), LabError> {
        self.flush_connections()?;
        let (namespaces, backend) = (&self.namespaces, self.backend);
        at_once(
            self.remembering
                .iter()
                .map(|document| move || forget_clients(find(namespaces, &document.netns)?, document, backend)),
        )
    }

    /// Flushes a namespace's state about earlier packets: see [`Self::forget`].
    pub(super) fn forget_in(&self, namespace: &Namespace) -> Result<(), LabError> {
        Connections::open(namespace)?.flush()?;
        let mut own = self.remembering.iter().filter(|document| document.netns == namespace.name());
        own.try_for_each(|document| forget_clients(namespace, document, self.backend))
    }
}

/// The documents whose rules remember clients.
pub(super) fn remembering(documents: &[Document]) -> Vec<Document> {
    documents.iter().filter(|document| document.rules.remembers()).cloned().collect()
}

fn forget_clients(namespace: &Namespace, document: &Document, backend: Backend) -> Result<(), LabError> {
    if let Some(tables) = document.rules.nftables() {
        return install::load(namespace, document, &reset_sets(tables), backend);
    }
    match namespace.run(empty_lists)? {
        // The lists belong to the host's root even in user namespaces, but each is deleted with the last rule that uses it.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let tables = document.rules.iptables().into_iter().flat_map(|rules| &rules.tables);
            let emptied: String = tables.map(|table| format!("*{}\nCOMMIT\n", table.name)).collect();
            install::load(namespace, document, &emptied, backend)?;
            install::install(namespace, document, None, backend)
        }
        emptied => {
            emptied.map_err(|source| LabError::Sandbox { what: "flushing the lists of the recent match", source })
        }
    }
}

/// Empties all lists of the `recent` match in the calling thread's namespace. There are none until the match's module is loaded.
fn empty_lists() -> io::Result<()> {
    let Ok(lists) = fs::read_dir(LISTS) else { return Ok(()) };
    lists.into_iter().try_for_each(|list| fs::write(list?.path(), "/\n"))
}

/// The commands that reset the dynamic sets of some tables to the elements that they were declared with.
fn reset_sets(parsed: &nftables::Parsed) -> String {
    let named = |table: &nftables::Table| parsed.names.iter().find(|name| name.is_of(table));
    let tables = parsed.rules.tables.iter().filter_map(|table| Some((named(table)?, table)));
    let sets = tables.flat_map(|(name, table)| table.sets.iter().map(move |set| (name, set)));
    let of = |(name, set): (&nftables::TableName, &nftables::Set)| {
        let declared: Vec<String> = set.elements.iter().map(nftables::print_element).collect();
        let flushed = format!("flush {} {name} {}\n", set.kind.as_str(), set.name);
        let added =
            (!declared.is_empty()).then(|| format!("add element {name} {} {{ {} }}\n", set.name, declared.join(", ")));
        flushed + &added.unwrap_or_default()
    };
    sets.filter(|(_, set)| set.dynamic.is_some()).map(of).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn only_sets_that_rules_add_to_are_reset() {
        let text = "table ip kube-proxy {\n\tset cluster-ips {\n\t\ttype ipv4_addr\n\t}\n\n\tset affinity-a {\n\t\t\
                    type ipv4_addr\n\t\tsize 65535\n\t\tflags dynamic,timeout\n\t\ttimeout 3h\n\t}\n}\n";
        let reset = |text: &str| reset_sets(&nftables::parse_all(text).expect("tables"));
        assert_eq!(reset(text), "flush set ip kube-proxy affinity-a\n");
        let once = "flush set inet kube-proxy affinity-a\n";
        assert_eq!(reset(&text.replace("table ip ", "table inet ")), once.repeat(2), "one table per family");
    }

    #[rstest]
    #[case::flag("flags dynamic;", "meta l4proto udp accept")]
    #[case::rule("", "update @seen { ip saddr }")]
    #[case::rule_not_modelled("", "meta l4proto udp add @seen { ip saddr limit rate 3/second }")]
    fn sets_without_timeout_keep_their_declared_elements(#[case] flags: &str, #[case] rule: &str) {
        let text = format!(
            "table ip t {{\n\tset seen {{\n\t\ttype ipv4_addr; {flags}\n\t\telements = {{ 192.0.2.1, 192.0.2.2 }}\n\t}}\n\n\t\
             chain seeing {{\n\t\ttype filter hook forward priority 0; policy accept;\n\t\t{rule}\n\t}}\n}}\n"
        );
        let expected = "flush set ip t seen\nadd element ip t seen { 192.0.2.1, 192.0.2.2 }\n";
        assert_eq!(reset_sets(&nftables::parse_all(&text).expect("tables")), expected);
    }
}
