//! Rules of a namespace made ready for walking.

use std::borrow::Cow;

use super::Rules;
use crate::cluster::Family;
use crate::nftables::Ruleset;
use crate::walk::{self, Alongside};
use crate::{iptables, nftables};

/// The rules of a namespace for packets of one family, ready for walking: those of iptables alongside tables of nftables.
pub type Program = walk::Program<Alongside<iptables::evaluate::Code, nftables::evaluate::Code>>;

/// A reason why the kernel would not load rules, in either language.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
pub enum CompileError {
    /// In rules of iptables.
    Iptables(#[from] iptables::evaluate::CompileError),
    /// In tables of nftables.
    Nftables(#[from] nftables::evaluate::CompileError),
}

/// Makes the rules of a namespace ready for walking, given in the order in which they are installed. Only one of them, at most, is
/// of iptables.
///
/// # Errors
///
/// Every reason why the kernel would not load them, and tables whose rules no packet traverses.
pub fn compile(installed: &[&Rules], family: Family) -> Result<Program, Vec<CompileError>> {
    let mut tables: Cow<'_, Ruleset> = Cow::default();
    let mut iptables = walk::Program::empty(family, iptables::evaluate::Code::default());
    // How many tables are older than the rules of iptables.
    let mut older = 0;
    for rules in installed {
        if let Some(rules) = rules.iptables() {
            iptables = iptables::evaluate::Program::compile(rules).map_err(either)?;
            older = tables.tables.len();
        }
        match rules.nftables() {
            Some(parsed) if tables.tables.is_empty() => tables = Cow::Borrowed(&parsed.rules),
            Some(parsed) => tables.to_mut().tables.extend(parsed.rules.tables.iter().cloned()),
            None => {}
        }
    }
    nftables::evaluate::Program::compile_alongside(&tables, iptables, older).map_err(either)
}

fn either<E: Into<CompileError>>(errors: Vec<E>) -> Vec<CompileError> {
    errors.into_iter().map(Into::into).collect()
}
