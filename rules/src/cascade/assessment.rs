//! Assembly of a cascade from what the walk and the checks found.

use super::check::{check, check_excerpt};
use super::defect::{Defect, Kind};
use super::group::Walked;
use super::outcome::Unknown;
use super::{Cascade, Chance, Step};
use crate::chains::{Frontend, TEN_DIGITS};
use crate::cluster::{Family, Protocol};
use crate::walk::Share;

/// What is known about a cascade besides the result of the walk.
pub(super) struct About {
    pub(super) service: String,
    pub(super) protocol: Option<Protocol>,
    pub(super) frontends: Vec<Frontend>,
    pub(super) family: Family,
    pub(super) chain: String,
    pub(super) has_affinity: bool,
    /// Defects of names, addresses and affinity.
    pub(super) defects: Vec<Defect>,
    /// Whether all rules of the chain are known.
    pub(super) is_whole: bool,
}

/// Largest deviation of a share if each rule is right except for the last bit of its threshold.
pub(super) const ROUNDED: f64 = 1e-9;
/// Upper limit of the tolerance, however many rules there are.
pub(super) const MAX_ROUNDED: f64 = 0.01;

/// Assembles a cascade.
pub(super) fn judge(about: About, walked: Walked) -> Cascade {
    let About { service, protocol, frontends, family, chain, has_affinity, defects: more, is_whole } = about;
    let Walked { steps, endpoints, left, fallen, cases, mut unknown, mut defects } = walked;
    let of_steps = check(&steps, endpoints);
    defects.extend(of_steps.into_iter().filter(|defect| is_whole || !defect.kind.depends_on_count()));
    if !is_whole {
        defects.extend(check_excerpt(&steps));
    }
    defects.extend(more);
    let explained: Vec<usize> =
        defects.iter().filter(|one| matches!(one.kind, Kind::Protocol { .. })).map(|one| one.rule).collect();
    defects.retain(|one| !(matches!(one.kind, Kind::NeverTaken { .. }) && explained.contains(&one.rule)));
    let is_end = |defect: &Defect| matches!(defect.kind, Kind::FallsThrough { .. });
    defects.sort_by_key(|defect| (is_end(defect), defect.rule));
    if !is_whole {
        let (absent, present) = defects.into_iter().partition(|defect| defect.kind.is_absence());
        defects = present;
        unknown.extend(absent.into_iter().map(beyond));
    }
    let mut cascade = Cascade {
        service,
        protocol,
        frontends,
        family,
        chain,
        steps,
        endpoints,
        left,
        fallen,
        cases,
        unknown,
        has_affinity,
        defects,
    };
    // Hidden rules may be between those that an excerpt shows: `check_excerpt` has judged them.
    if is_whole {
        cascade.defects.extend(uneven(&cascade));
    }
    cascade
}

/// Turns a defect of an excerpt into what the excerpt leaves unknown.
fn beyond(defect: Defect) -> Unknown {
    let share = if let Kind::FallsThrough { share } = defect.kind { Some(share) } else { None };
    let why = match defect.kind {
        Kind::FallsThrough { .. } => "the excerpt ends after the last rule shown".to_owned(),
        kind => format!("{kind}; or the missing rule is not in the excerpt"),
    };
    Unknown { rule: defect.rule, share, why }
}

/// Returns the deviation of shares that no other defect explains.
fn uneven(cascade: &Cascade) -> Option<Defect> {
    if !cascade.defects.is_empty() || !cascade.unknown.is_empty() {
        return None;
    }
    let is_shortened =
        |step: &Step| matches!(step.chance, Chance::Below(probability) if probability.is_shortened(TEN_DIGITS));
    if cascade.steps.iter().any(is_shortened) {
        return None;
    }
    let count = cascade.endpoints as f64;
    let tolerance = (count * count * 2_f64.powi(-30) + ROUNDED).min(MAX_ROUNDED);
    let (endpoint, deviation) = cascade.worst()?;
    let kind = Kind::Uneven { endpoint: endpoint.to_owned(), deviation };
    (deviation.abs() > tolerance || cascade.left != Share::ZERO).then_some(Defect { rule: 0, kind })
}
