//! Compilation of a network namespace's rules.

use std::borrow::Cow;

use super::Rules;
use crate::cluster::Family;
use crate::nftables::Ruleset;
use crate::walk::{self, Alongside};
use crate::{iptables, nftables};

/// The compiled rules of a network namespace for packets of one family: iptables rules alongside nftables tables.
pub type Program = walk::Program<Alongside<iptables::evaluate::Code, nftables::evaluate::Code>>;

/// A reason why the kernel would reject rules, in either language.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
pub enum CompileError {
    /// In iptables rules.
    Iptables(#[from] iptables::evaluate::CompileError),
    /// In nftables tables.
    Nftables(#[from] nftables::evaluate::CompileError),
}

/// Compiles the rules of a network namespace, given in the order of installation. At most one of them is iptables rules.
///
/// # Errors
///
/// Every reason why the kernel would reject them, and tables whose rules no packet traverses.
pub fn compile(installed: &[&Rules], family: Family) -> Result<Program, Vec<CompileError>> {
    let mut tables: Cow<'_, Ruleset> = Cow::default();
    let mut iptables = walk::Program::empty(family, iptables::evaluate::Code::default());
    // The number of tables installed before the iptables rules.
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
