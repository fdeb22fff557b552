//! The result of a test of shares, in words.

use super::fit::{Cell, Fit, Global};
use super::numbers::{chance, percent};
use crate::text::grouped;

impl Fit {
    /// Describes the result, one sentence for each finding. The caller names endpoints by their index.
    ///
    /// `no endpoint is off by more than 4.1 % (relative), at a false-alarm rate of 1e-6; 41,200 flows`
    pub(crate) fn words(&self, name: impl Fn(usize) -> String) -> Vec<String> {
        if self.agrees {
            return vec![self.shown()];
        }
        let possible = self.cells.iter().filter(|cell| cell.share > 0.0).count() as f64;
        let smallest = self.cells.iter().map(|cell| cell.p_value).fold(1.0, f64::min);
        // Every endpoint that fails individually; if none does, all together do. The p-value of the test is that of its worst part,
        // multiplied by the number of parts.
        let parts = self.p_value / (smallest * possible).min(self.global.p_value());
        let parts = if parts.is_finite() { parts.max(2.0) } else { 2.0 };
        let guilty = |cell: &Cell| cell.p_value * possible * parts <= self.rate.get();
        let single = self.cells.iter().enumerate().filter(|(_, cell)| guilty(cell));
        let mut words: Vec<String> = single.map(|(at, cell)| self.off(&name(at), cell)).collect();
        if words.is_empty() {
            words.push(self.off_together());
        }
        words
    }

    fn shown(&self) -> String {
        let (flows, rate) = (grouped(self.flows), self.rate);
        match self.cells.iter().filter(|cell| cell.share > 0.0).count() {
            1 => format!("all of {flows} flows went to the only endpoint"),
            _ => format!(
                "no endpoint is off by more than {} (relative), at a false-alarm rate of {rate}; {flows} flows{}",
                percent(self.greatest_bias()),
                // The earlier counting ended, the wider the bounds are.
                if matches!(self.global, Global::Anytime { .. }) { ", which were enough" } else { "" }
            ),
        }
    }

    fn off(&self, name: &str, cell: &Cell) -> String {
        if cell.share <= 0.0 {
            return format!("{name} got {} of {} flows, should get none", grouped(cell.count), grouped(self.flows));
        }
        format!(
            "{name} got {} of {} flows ({}), should get {} ({}), chance {}",
            grouped(cell.count),
            grouped(self.flows),
            percent(cell.count as f64 / self.flows as f64),
            grouped(cell.expected(self.flows).round() as u64),
            percent(cell.share),
            chance(cell.p_value)
        )
    }

    fn off_together(&self) -> String {
        let how = match self.global {
            Global::Exact { p_value } => format!("exact multinomial test, chance {}", chance(p_value)),
            Global::LikelihoodRatio { statistic, p_value } => {
                format!("likelihood ratio G = {statistic:.1}, chance at most {}", chance(p_value))
            }
            Global::Anytime { p_value, .. } => {
                format!("mixture of all other shares, chance at most {}", chance(p_value))
            }
        };
        format!("the counts of all {} endpoints together do not fit the shares ({how})", self.cells.len())
    }
}
