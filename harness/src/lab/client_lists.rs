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
        return install::load(namespace, document, &emptied_sets(tables), backend);
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

/// The commands that flush the dynamic sets of some tables.
fn emptied_sets(parsed: &nftables::Parsed) -> String {
    let named = |table: &nftables::Table| parsed.names.iter().find(|name| name.is_of(table));
    let tables = parsed.rules.tables.iter().filter_map(|table| Some((named(table)?, table)));
    let sets = tables.flat_map(|(name, table)| table.sets.iter().map(move |set| (name, set)));
    sets.filter(|(_, set)| set.dynamic.is_some())
        .map(|(name, set)| format!("flush set {name} {}\n", set.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sets_that_rules_add_to_are_emptied() {
        let text = "table ip kube-proxy {\n\tset cluster-ips {\n\t\ttype ipv4_addr\n\t}\n\n\tset affinity-a {\n\t\t\
                    type ipv4_addr\n\t\tsize 65535\n\t\tflags dynamic,timeout\n\t\ttimeout 3h\n\t}\n}\n";
        let emptied = |text: &str| emptied_sets(&nftables::parse_all(text).expect("tables"));
        assert_eq!(emptied(text), "flush set ip kube-proxy affinity-a\n");
        let once = "flush set inet kube-proxy affinity-a\n";
        assert_eq!(emptied(&text.replace("table ip ", "table inet ")), once.repeat(2), "one table per family");
    }
}
