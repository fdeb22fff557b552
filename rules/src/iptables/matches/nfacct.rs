//! `nfacct`: an nfacct object counts the packet. Without a quota, which kube-proxy never sets, it always holds (`nfacct_mt`).

use super::{Extension, Match};
use crate::iptables::text::Printer;

pub(super) const NFACCT: Extension = Extension {
    name: "nfacct",
    options: &["--nfacct-name"],
    // The kernel does not support its negation.
    parse: |options| {
        let option = options.iter().next().filter(|option| !option.negated);
        option.map(|option| Ok(Match::Nfacct(option.value()?.into()))).transpose()
    },
    parse_listed: |words, negated| {
        let name = words.get(1).filter(|_| !negated && words[0] == "nfacct-name")?;
        Some((Match::Nfacct((*name).into()), 2))
    },
};

pub(super) fn print(name: &str, out: &mut Printer) {
    // `iptables-save` prints two blanks here.
    out.push(" -m nfacct --nfacct-name  ");
    out.quoted(name);
}
