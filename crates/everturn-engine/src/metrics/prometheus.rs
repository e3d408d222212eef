//! The text format of Prometheus.

use std::{
    collections::BTreeMap,
    fmt::{Display, Write},
};

use super::{Histogram, Metrics};

/// All metrics as text.
pub(super) fn text(metrics: &Metrics) -> String {
    let m = metrics;
    let mut text = Text::default();
    text.gauge("everturn_sessions_open", "Sessions that are open.", m.open_sessions);
    text.gauge("everturn_turns_active", "Turns that live.", m.active_turns);
    text.gauge("everturn_submissions_queued", "Inputs that wait in a queue.", m.queued);
    text.gauge("everturn_approvals_open", "Approvals that nobody has decided.", m.open_approvals);
    text.words(("everturn_turns_total", "end"), "Turns by end.", &m.turns);
    text.counter("everturn_steps_total", "Responses in turns that ended.", m.steps);
    text.histogram("everturn_turn_seconds", "From a turn's first commit to its last.", &m.turn_ms);
    text.words(("everturn_requests_total", "end"), "Requests to models by end.", &m.requests);
    text.counter("everturn_retries_total", "Requests that were not the first attempt.", m.retries);
    let tokens =
        [("input", m.input_tokens), ("output", m.output_tokens), ("cached_input", m.cached_tokens)].into();
    text.words(("everturn_tokens_total", "kind"), "Tokens; the cached input is also input.", &tokens);
    let dollars = m.cost as f64 / 1e9;
    text.counter("everturn_cost_dollars_total", "What is known of the cost of requests.", dollars);
    text.words(("everturn_calls_total", "outcome"), "Calls by outcome.", &m.calls);
    text.counter("everturn_refusals_total", "Calls that policy, a person or the host refused.", m.refusals());
    text.counter("everturn_compactions_total", "Contexts that were made shorter.", m.compactions);
    text.histogram("everturn_commit_seconds", "How long storage took to store a commit.", &m.commit_ms);
    let help = "How long a transaction kept the line before it was sent to storage.";
    text.histogram("everturn_line_seconds", help, &m.line_ms);
    text.0
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes what it is given");
    }

    fn head(&mut self, (name, kind): (&str, &str), help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.head((name, "gauge"), help);
        self.line(format_args!("{name} {value}"));
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.head((name, "counter"), help);
        self.line(format_args!("{name} {value}"));
    }

    fn words(&mut self, (name, label): (&str, &str), help: &str, counts: &BTreeMap<&'static str, u64>) {
        self.head((name, "counter"), help);
        for (word, count) in counts {
            self.line(format_args!("{name}{{{label}=\"{word}\"}} {count}"));
        }
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head((name, "histogram"), help);
        let mut so_far = 0;
        for (bound, count) in Histogram::BOUNDS.iter().zip(&histogram.buckets) {
            so_far += count;
            self.line(format_args!("{name}_bucket{{le=\"{}\"}} {so_far}", seconds(*bound)));
        }
        self.line(format_args!("{name}_bucket{{le=\"+Inf\"}} {}", histogram.count));
        self.line(format_args!("{name}_sum {}", seconds(histogram.sum_ms)));
        self.line(format_args!("{name}_count {}", histogram.count));
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}
