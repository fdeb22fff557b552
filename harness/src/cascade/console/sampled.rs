//! What came of real packets, on the page of a cascade.

use anstyle::AnsiColor;

use super::{MOST_ROWS, Style, line, paint};
use crate::cascade::sample::{Arrival, Sample};
use crate::stats::{Cell, grouped, percent};
use crate::text::counted;

/// The width of an interval's picture, in letters.
const WIDTH: usize = 41;

/// Adds counts with their intervals, and what was shown or is wrong.
pub(super) fn block(page: &mut String, sample: &Sample, style: Style) {
    let counters = sample.arrivals.iter().any(|own| own.counted.is_some());
    let heading = format!("  sampled: {} from {} to {}", flows(sample.sent), sample.from, sample.to);
    line(page, &heading);
    if let Some(fit) = &sample.fit {
        let most = if style.whole { usize::MAX } else { MOST_ROWS };
        let name = |own: &Arrival| own.endpoint.chars().count();
        let wide = sample.arrivals.iter().map(name).max().unwrap_or(0);
        // All rows have one scale, so that they can be compared.
        let low = fit.cells.iter().map(|cell| cell.interval.low.min(cell.share)).fold(1.0, f64::min);
        let high = fit.cells.iter().map(|cell| cell.interval.high.max(cell.share)).fold(0.0, f64::max);
        for (own, cell) in sample.arrivals.iter().zip(&fit.cells).take(most) {
            let counted = match own.counted {
                Some(counted) => format!("{:>11} counted", grouped(counted)),
                None if counters => " ".repeat(19),
                None => String::new(),
            };
            line(
                page,
                &format!(
                    "  {:<wide$}  {:>11} arrived{counted}  {:>9}  {}  {} to {}",
                    own.endpoint,
                    grouped(own.arrived),
                    percent(own.arrived as f64 / fit.flows.max(1) as f64),
                    picture(cell, fit.flows, (low, high)),
                    percent(cell.interval.low),
                    percent(cell.interval.high)
                ),
            );
        }
        if let Some(more) = sample.arrivals.len().checked_sub(most).filter(|more| *more > 0) {
            line(page, &format!("  ... {} more; -v lists them", counted(more, "endpoint")));
        }
    }
    sample.shown.iter().for_each(|shown| line(page, &format!("  {shown}.")));
    sample.faults.iter().for_each(|fault| line(page, &format!("  {}  {fault}", paint(style, AnsiColor::Red, "FAIL"))));
}

/// The interval of shares that fit a count as a line, the count as a dot on it, and the exact share as a bar across.
fn picture(cell: &Cell, flows: u64, (low, high): (f64, f64)) -> String {
    let at = |share: f64| match high - low {
        span if span > 0.0 => ((share - low) / span * (WIDTH - 1) as f64).round() as usize,
        _ => WIDTH / 2,
    };
    let mut letters = vec![' '; WIDTH];
    letters[at(cell.interval.low).min(WIDTH - 1)..=at(cell.interval.high).min(WIDTH - 1)].fill('─');
    letters[at(cell.share).min(WIDTH - 1)] = '┼';
    letters[at(cell.count as f64 / flows.max(1) as f64).min(WIDTH - 1)] = '●';
    letters.into_iter().collect()
}

fn flows(count: u64) -> String {
    format!("{} flow{}", grouped(count), if count == 1 { "" } else { "s" })
}
