//! The progress of a command, on a terminal.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::console::Console;
use svclab::Progress;
use svclab::text::grouped;

/// The interval of redrawing bars.
const EVERY: Duration = Duration::from_millis(200);

/// Progress bars on standard error: one for scenarios and, while flows are counted, one for flows, with their rate and the maximum time
/// left. They are shown only on a terminal, and removed when this is dropped.
pub(super) struct Bars {
    all: MultiProgress,
    scenarios: ProgressBar,
    /// Ends the drawing thread when dropped; `None` if nothing is drawn.
    drawing: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Bars {
    /// Creates bars for scenarios, if their number is known, and for counted flows.
    pub(super) fn new(scenarios: Option<usize>, flows: &Arc<Progress>, console: &Console) -> Self {
        let target = if console.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let all = MultiProgress::with_draw_target(target);
        let bar = |count| all.add(ProgressBar::new(count as u64));
        let scenarios = scenarios.map_or_else(ProgressBar::hidden, bar);
        scenarios.set_style(style("{bar:30} {pos}/{len} scenarios, {elapsed}"));
        let mut bars = Self { all, scenarios, drawing: None };
        if !bars.all.is_hidden() {
            bars.draw(Arc::clone(flows));
        }
        bars
    }

    /// Writes to the terminal without the bars.
    pub(super) fn suspend(&self, write: impl FnOnce()) {
        self.all.suspend(write);
    }

    /// Advances the bar by one scenario.
    pub(super) fn scenario_ended(&self) {
        self.scenarios.inc(1);
    }

    /// Updates the bars in a separate thread; if none can be started, the scenario bar only moves when a scenario ends.
    fn draw(&mut self, flows: Arc<Progress>) {
        let (stop, stopped) = channel();
        let (all, scenarios) = (self.all.clone(), self.scenarios.clone());
        let draw = move || {
            let mut counting = None;
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                scenarios.tick();
                show_flows(flows.flows(), &mut counting, &all);
            }
            counting.iter().for_each(ProgressBar::finish_and_clear);
        };
        self.drawing = thread::Builder::new().spawn(draw).ok().map(|thread| (stop, thread));
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.drawing.take() {
            drop(stop);
            // It only draws, so a failure does not matter.
            let _ = thread.join();
        }
        self.scenarios.finish_and_clear();
        let _ = self.all.clear();
    }
}

/// Shows how many flows were counted, on a bar that exists as long as flows remain.
fn show_flows((counted, wanted): (u64, u64), bar: &mut Option<ProgressBar>, all: &MultiProgress) {
    if wanted == 0 {
        bar.take().iter().for_each(ProgressBar::finish_and_clear);
        return;
    }
    let bar = bar.get_or_insert_with(|| {
        let bar = all.add(ProgressBar::new(wanted));
        let number = |write: fn(&ProgressState) -> u64| {
            move |state: &ProgressState, text: &mut dyn fmt::Write| {
                // Writing to a string does not fail.
                let _ = text.write_str(&grouped(write(state)));
            }
        };
        let style = style("{bar:30} {counted} of {wanted} flows, {rate}/s, {eta} left")
            .with_key("counted", number(ProgressState::pos))
            .with_key("wanted", number(|state| state.len().unwrap_or(0)))
            .with_key("rate", number(|state| state.per_sec().round() as u64));
        bar.set_style(style);
        bar
    });
    bar.set_length(wanted);
    bar.set_position(counted);
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
