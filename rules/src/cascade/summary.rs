//! One-sentence summaries of cascades.

use super::{Cascade, Chance, Step};

/// Number of probabilities listed before the ellipsis.
const LISTED: usize = 3;

impl Cascade {
    /// Explains in one sentence, without a full stop, why the shares are even, or how far they are from even.
    pub fn sentence(&self) -> String {
        match (self.steps.as_slice(), self.defects.is_empty()) {
            ([], _) if !self.unknown.is_empty() => "what these rules lead to is unknown".to_owned(),
            ([], _) => "no rule leads to an endpoint".to_owned(),
            (_, false) => self.unfair(),
            _ if !self.unknown.is_empty() => {
                "no defect in the rules shown, but the excerpt is incomplete: whether shares are even is unknown"
                    .to_owned()
            }
            ([_], true) => "there is one endpoint, and it gets everything".to_owned(),
            ([Step { chance: Chance::Drawn { of, .. }, .. }, ..], true) => format!(
                "one random number of {of} is even: it is drawn once, each endpoint has one of the {of} numbers, and none \
                 depends on what others left"
            ),
            ([Step { chance: Chance::Nth { every, .. }, rule, .. }, rest @ ..], true)
                if rest.iter().all(|step| step.rule == *rule) =>
            {
                format!(
                    "{every} numbers in turn are even: each endpoint has as many of them, and none depends on what others left"
                )
            }
            (steps, true) => {
                let listed: Vec<String> = steps.iter().take(LISTED).map(written).collect();
                let rest = if steps.len() > LISTED { ", ..., always" } else { "" };
                format!("{}{rest} is even: {}", listed.join(", "), why(steps.len()))
            }
        }
    }

    fn unfair(&self) -> String {
        if self.steps.iter().any(|step| !self.is_known(step)) {
            return "defects were found, and some shares are unknown because these rules are incomplete".to_owned();
        }
        match self.worst() {
            Some((endpoint, deviation)) if deviation.abs() >= 1e-6 => {
                let percent = deviation * 100.0;
                // A deviation too small for two digits would print as zero.
                let off = if percent.abs() < 0.005 { format!("{percent:+.1e}") } else { format!("{percent:+.2}") };
                format!("the shares are not even: {endpoint} deviates most, by {off} %")
            }
            _ if !self.cases.is_empty() => {
                "the shares are even, but only for some connections: those below are treated differently".to_owned()
            }
            _ => "the shares are even, but the rules have defects".to_owned(),
        }
    }
}

/// Explains why 1/n, 1/(n-1), ..., 1 gives each of n endpoints the same share.
fn why(n: usize) -> String {
    match n {
        2 => "the second rule sees only the half that the first left, and takes all of it".to_owned(),
        3 => "the second rule sees only the 2/3 that the first left and takes half of them, which is 1/3; the third takes \
              the remaining 1/3"
            .to_owned(),
        _ => format!(
            "each rule sees only what those before it left, so that the one with k endpoints still to come, itself \
             included, takes 1/k of k/{n}, which is 1/{n}"
        ),
    }
}

fn written(step: &Step) -> String {
    match step.chance {
        Chance::Below(probability) => {
            let text = format!("{:.2}", probability.share());
            // Two decimal places cannot show 1/100 and less.
            if probability.share() < 0.1 { format!("{:.5}", probability.share()) } else { text }
        }
        chance => chance.words(),
    }
}
