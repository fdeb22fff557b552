//! Frontends that lead to another Service than expected: one difference, although one Service lacks the frontend and the other has it.

use std::collections::{HashMap, HashSet};

use super::finding::{Difference, Fact, Finding, Subject};

/// Joins the missing frontend of one Service and the unexpected one of another. The line is that of the rule that leads there.
pub(super) fn join(findings: &mut Vec<Finding>) {
    let unexpected = findings.iter().enumerate().filter_map(|(at, finding)| match &finding.difference {
        Difference::Unexpected(fact @ Fact::Entry(_)) => Some((fact.clone(), at)),
        _ => None,
    });
    let mut unexpected: HashMap<Fact, usize> = unexpected.collect();
    let mut joined = HashSet::new();
    for at in 0..findings.len() {
        let Difference::Missing(fact) = &findings[at].difference else { continue };
        let Some(of_other) = unexpected.remove(fact) else { continue };
        let Subject::Service(other) = &findings[of_other].subject else { continue };
        let difference = Difference::LedElsewhere { fact: fact.clone(), to: other.clone() };
        findings[at] = Finding { difference, line: findings[of_other].line, subject: findings[at].subject.clone() };
        joined.insert(of_other);
    }
    let mut places = 0..;
    findings.retain(|_| places.next().is_some_and(|at| !joined.contains(&at)));
}
