//! The results of a sample on a cascade's page.

use super::MAX_ROWS;
use crate::cascade::sample::Sample;
use crate::page::{BAD, Page};
use crate::stats::{Cell, Fit, percent};
use crate::text::{counted, grouped};

/// Minimum width of an interval's picture.
const NARROWEST: usize = 11;
const WIDEST: usize = 41;

/// Adds counts with their intervals, then measurements and faults.
pub(super) fn block(page: &mut Page, sample: &Sample) {
    let flows = counted(sample.sent, "flow");
    page.line(2, format!("sampled: {flows} from {} to {}", sample.from, sample.to));
    if let Some(fit) = &sample.fit {
        counts(page, sample, fit);
    }
    for shown in &sample.confirmations {
        page.line(2, format!("{shown}."));
    }
    for fault in &sample.faults {
        page.labelled(2, format!("{}  ", page.paint(BAD, "FAIL")), fault);
    }
}

/// Adds a row for each endpoint; all have the same scale, so that they can be compared.
fn counts(page: &mut Page, sample: &Sample, fit: &Fit) {
    let has_counters = sample.arrivals.iter().any(|own| own.counted.is_some());
    let most = if page.settings.is_verbose() { usize::MAX } else { MAX_ROWS };
    let wide = sample.arrivals.iter().map(|own| own.endpoint.chars().count()).max().unwrap_or(0);
    let low = fit.cells.iter().map(|cell| cell.interval.low.min(cell.share)).fold(1.0, f64::min);
    let high = fit.cells.iter().map(|cell| cell.interval.high.max(cell.share)).fold(0.0, f64::max);
    for (own, cell) in sample.arrivals.iter().zip(&fit.cells).take(most) {
        let counted = match own.counted {
            Some(counted) => format!("{:>11} counted", grouped(counted)),
            None if has_counters => " ".repeat(19),
            None => String::new(),
        };
        let arrived = percent(own.arrived as f64 / fit.flows.max(1) as f64);
        let start = format!("{:<wide$}  {:>11} arrived{counted}  {arrived:>9}  ", own.endpoint, grouped(own.arrived));
        let end = format!("  {} to {}", percent(cell.interval.low), percent(cell.interval.high));
        let taken = 2 + start.chars().count() + end.chars().count();
        let room = page.settings.width.saturating_sub(taken).min(WIDEST);
        if room < NARROWEST {
            page.line(2, start.trim_end().to_owned() + &end);
        } else {
            page.row(2, format!("{start}{}{end}", picture(cell, fit.flows, (low, high), room)));
        }
    }
    if let Some(more) = sample.arrivals.len().checked_sub(most).filter(|more| *more > 0) {
        page.line(2, format!("... {} more; -v lists them", counted(more, "endpoint")));
    }
}

/// Draws the interval of shares that fit a count as a line, the count as a dot on it, and the exact share as a bar across it.
fn picture(cell: &Cell, flows: u64, (low, high): (f64, f64), width: usize) -> String {
    let at = |share: f64| match high - low {
        span if span > 0.0 => ((share - low) / span * (width - 1) as f64).round() as usize,
        _ => width / 2,
    };
    let mut letters = vec![' '; width];
    letters[at(cell.interval.low).min(width - 1)..=at(cell.interval.high).min(width - 1)].fill('─');
    letters[at(cell.share).min(width - 1)] = '┼';
    letters[at(cell.count as f64 / flows.max(1) as f64).min(width - 1)] = '●';
    letters.into_iter().collect()
}
