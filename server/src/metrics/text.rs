//! The text exposition format of Prometheus, version 0.0.4, as it is written.
//!
//! Not which metrics there are. Invariant: a family stands once, its samples together, and a
//! text from outside can break neither a line nor a quote.

use std::fmt::{self, Write as _};

use super::declared::Metric;

/// A sample's value. Whole numbers are told exactly.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// A count.
    Whole(u64),
    /// Anything else.
    Real(f64),
}

impl From<u64> for Number {
    fn from(number: u64) -> Number {
        Number::Whole(number)
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Number {
        Number::Real(number)
    }
}

impl From<bool> for Number {
    fn from(truth: bool) -> Number {
        Number::Whole(truth.into())
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(number) => write!(f, "{number}"),
            Number::Real(number) if number.is_infinite() => {
                f.write_str(if *number > 0.0 { "+Inf" } else { "-Inf" })
            }
            Number::Real(number) => write!(f, "{number}"),
        }
    }
}

/// A page of metrics while it is written.
#[derive(Default)]
pub struct Exposition {
    text: String,
    told: Vec<&'static str>,
}

impl Exposition {
    /// An empty page.
    pub fn new() -> Exposition {
        Exposition::default()
    }

    /// Begins a family; its samples follow. One without samples is left out.
    pub fn family(&mut self, metric: &'static Metric) -> Samples<'_> {
        assert!(!self.told.contains(&metric.name), "{} stands twice on a page", metric.name);
        self.told.push(metric.name);
        Samples { page: self, metric, has_begun: false }
    }

    /// A family of one sample without labels.
    pub fn one(&mut self, metric: &'static Metric, value: impl Into<Number>) {
        self.family(metric).sample(&[], value);
    }

    /// The page.
    pub fn into_text(self) -> String {
        self.text
    }
}

/// A family while its samples are written.
pub struct Samples<'a> {
    page: &'a mut Exposition,
    metric: &'static Metric,
    has_begun: bool,
}

impl Samples<'_> {
    /// Adds a sample, the labels' values in the order of their declaration.
    pub fn sample(&mut self, labels: &[&str], value: impl Into<Number>) {
        let (metric, text) = (self.metric, &mut self.page.text);
        assert_eq!(labels.len(), metric.labels.len(), "labels of {}", metric.name);
        if !self.has_begun {
            self.has_begun = true;
            let help = metric.help.replace('\\', "\\\\").replace('\n', "\\n");
            let _ = writeln!(text, "# HELP {} {help}", metric.name);
            let _ = writeln!(text, "# TYPE {} {}", metric.name, metric.kind.as_str());
        }
        text.push_str(metric.name);
        for (at, (name, value)) in metric.labels.iter().zip(labels).enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(text, "{before}{name}=\"");
            push_escaped(text, value);
            text.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(text, "{end} {}", value.into());
    }
}

fn push_escaped(text: &mut String, value: &str) {
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Kind;

    const PLAIN: &Metric =
        &Metric { name: "a_bytes", kind: Kind::Gauge, labels: &[], help: "A \\ or\nline." };
    const LABELLED: &Metric =
        &Metric { name: "b_total", kind: Kind::Counter, labels: &["x", "y"], help: "B." };

    #[test]
    fn a_page_is_families_with_help_type_and_samples() {
        let mut page = Exposition::new();
        page.one(PLAIN, u64::MAX);
        let mut family = page.family(LABELLED);
        family.sample(&["one", "a \"b\" \\c\nd"], 1.5);
        family.sample(&["two", ""], 2_u64);
        assert_eq!(
            page.into_text(),
            "# HELP a_bytes A \\\\ or\\nline.\n\
             # TYPE a_bytes gauge\n\
             a_bytes 18446744073709551615\n\
             # HELP b_total B.\n\
             # TYPE b_total counter\n\
             b_total{x=\"one\",y=\"a \\\"b\\\" \\\\c\\nd\"} 1.5\n\
             b_total{x=\"two\",y=\"\"} 2\n"
        );
    }

    #[test]
    fn a_family_without_samples_is_not_there() {
        let mut page = Exposition::new();
        page.family(LABELLED);
        assert_eq!(page.into_text(), "");
    }

    #[test]
    fn numbers_are_written_as_prometheus_reads_them() {
        for (number, text) in [
            (Number::from(0.000_001), "0.000001"),
            (Number::from(f64::INFINITY), "+Inf"),
            (Number::from(f64::NEG_INFINITY), "-Inf"),
            (Number::from(f64::NAN), "NaN"),
            (Number::from(true), "1"),
        ] {
            assert_eq!(number.to_string(), text);
        }
    }
}
