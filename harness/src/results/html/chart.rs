//! Shares of endpoints with their confidence intervals.

use super::super::model::{Balance, Endpoint};
use crate::text::{grouped, markup};

/// The width of a chart, in pixels.
const WIDTH: f64 = 240.0;
/// The maximum number of endpoints in a table.
const MAX: usize = 40;

/// A table with a row for each endpoint: flows, shares, and a drawing of both.
pub(super) fn render(balance: &Balance) -> String {
    let all = &balance.endpoints;
    let most = all.iter().map(|endpoint| endpoint.high.max(endpoint.share)).fold(0.0, f64::max) * 1.08;
    let rows: String = all.iter().take(MAX).map(|endpoint| row(endpoint, balance.flows, most)).collect();
    let more = all.len().checked_sub(MAX).filter(|more| *more > 0);
    let more = more.map(|more| format!("<p class=\"soft\">and {more} more endpoints</p>\n")).unwrap_or_default();
    let result = if balance.passed { "as expected" } else { "not as expected" };
    format!(
        "<h4>Shares of {} flows: {result}, p = {:.3e}</h4>\n<div class=\"scroll\" tabindex=\"0\" role=\"group\" \
         aria-label=\"Shares of endpoints\"><table>\n<tr><th scope=\"col\">endpoint</th><th scope=\"col\">flows</th>\
         <th scope=\"col\">share</th><th scope=\"col\">expected</th><th scope=\"col\">confidence interval</th><td></td></tr>\n\
         {rows}</table></div>\n{more}",
        grouped(balance.flows),
        balance.p_value
    )
}

fn row(endpoint: &Endpoint, flows: u64, most: f64) -> String {
    let Endpoint { name, count, share, low, high } = endpoint;
    let seen = *count as f64 / (flows.max(1)) as f64;
    let percent = |part: f64| format!("{:.2} %", 100.0 * part);
    let at = |part: f64| if most > 0.0 { (part / most * WIDTH).clamp(0.0, WIDTH) } else { 0.0 };
    let (seen_at, expected, left, right) = (at(seen), at(*share), at(*low), at(*high));
    let drawing = format!(
        "<svg viewBox=\"0 0 {WIDTH} 16\" width=\"{WIDTH}\" height=\"16\" aria-hidden=\"true\">\
         <path class=\"axis\" d=\"M0 8H{WIDTH}\"/><path class=\"interval\" d=\"M{left:.1} 8H{right:.1}\"/>\
         <circle class=\"seen\" cx=\"{seen_at:.1}\" cy=\"8\" r=\"4\"/>\
         <path class=\"expected\" d=\"M{expected:.1} 1V15\"/></svg>"
    );
    format!(
        "<tr><th scope=\"row\">{}</th><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
         <td class=\"number\">{} to {}</td><td>{drawing}</td></tr>\n",
        markup(name),
        grouped(*count),
        percent(seen),
        percent(*share),
        percent(*low),
        percent(*high)
    )
}
