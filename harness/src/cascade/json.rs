//! The report for programs.

use serde_json::{Value, json};
use svclab_rules::cascade::{Cascade, Chance, Defect, Front, Step};
use svclab_rules::walk::Share;

use super::Report;
use super::sample::Sample;

/// The version of the document's shape. It grows when a field changes its meaning or goes.
const VERSION: u32 = 1;

/// The whole report as one JSON object.
pub fn render(report: &Report) -> Value {
    let cascades = report.cascades.iter().enumerate().map(|(index, own)| cascade(own, report.sample(index)));
    json!({
        "version": VERSION,
        "source": report.source,
        "notes": report.notes,
        "defects": report.defects(),
        "cascades": cascades.collect::<Vec<_>>(),
    })
}

fn cascade(cascade: &Cascade, sample: Option<&Sample>) -> Value {
    json!({
        "service": cascade.service,
        "protocol": cascade.protocol.map(|protocol| protocol.as_str()),
        "chain": cascade.chain,
        "fronts": cascade.fronts.iter().map(front).collect::<Vec<_>>(),
        "endpoints": cascade.endpoints,
        "affinity": cascade.has_affinity,
        "even": share(cascade.even()),
        "largestDeviation": cascade.largest_deviation(),
        "steps": cascade.steps.iter().map(|own| step(cascade, own)).collect::<Vec<_>>(),
        "left": share(cascade.left),
        "sentence": cascade.sentence(),
        "defects": cascade.defects.iter().map(defect).collect::<Vec<_>>(),
        "sample": sample.map(sampled),
    })
}

/// What came of real packets. Intervals have those shares that fit a count, all of them together at the false-alarm rate.
fn sampled(sample: &Sample) -> Value {
    let cells = sample.fit.iter().flat_map(|fit| &fit.cells).map(Some).chain(std::iter::repeat(None));
    let arrivals = sample.arrivals.iter().zip(cells).map(|(own, cell)| {
        json!({
            "endpoint": own.endpoint,
            "arrived": own.arrived,
            "counted": own.counted,
            "share": share(own.share),
            "interval": cell.map(|cell| [cell.interval.low, cell.interval.high]),
        })
    });
    json!({
        "from": sample.from,
        "to": sample.to,
        "sent": sample.sent,
        "arrivals": arrivals.collect::<Vec<_>>(),
        "pValue": sample.fit.as_ref().map(|fit| fit.p_value),
        "falseAlarmRate": sample.fit.as_ref().map(|fit| fit.rate.get()),
        "shown": sample.shown,
        "faults": sample.faults,
    })
}

fn front(front: &Front) -> Value {
    json!({ "address": front.address, "port": front.port, "protocol": front.protocol.as_str() })
}

fn step(cascade: &Cascade, step: &Step) -> Value {
    json!({
        "rule": step.rule,
        "endpoint": step.endpoint,
        "chain": Some(&step.chain).filter(|chain| !chain.is_empty()),
        "chance": chance(step.chance),
        "share": share(step.share),
        "deviation": cascade.deviation(step),
        "cumulative": share(step.cumulative),
    })
}

fn chance(chance: Chance) -> Value {
    let kind = match chance {
        Chance::Below(_) => "random",
        Chance::Always => "always",
        Chance::Drawn { .. } => "numgen",
        Chance::Condition => return json!({ "kind": "condition" }),
    };
    json!({
        "kind": kind,
        "written": super::figures::chance(chance),
        "threshold": chance.threshold(),
        "draws": chance.draws(),
    })
}

/// A share as a number from 0 to 1; the true value is not smaller, and by at most `error` greater, beside the last bit of the
/// number itself. Where it is exact it also stands as a fraction, in text because of its size.
fn share(share: Share) -> Value {
    let fraction = share.fraction().map(|(numerator, denominator)| format!("{numerator}/{denominator}"));
    json!({ "value": share.to_f64(), "error": share.error(), "fraction": fraction })
}

fn defect(defect: &Defect) -> Value {
    let rule = Some(defect.rule).filter(|rule| *rule > 0);
    json!({ "rule": rule, "kind": defect.kind.code(), "message": defect.kind.to_string() })
}
