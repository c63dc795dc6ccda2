//! Options: logs, slow log, latency, and who may debug.

use super::INT_MAX;
use crate::config::declaration::Declaration;
use crate::config::special::Special;
use crate::config::value::Kind;

const PROTECTED: Kind = Kind::Choice(&["no", "yes", "local"]);
const ANY: Kind = Kind::Integer { min: 0, max: i64::MAX };

pub(super) const OPTIONS: &[Declaration] = &[
    Declaration::new(
        "loglevel",
        Kind::Choice(&["debug", "verbose", "notice", "warning"]),
        "notice",
        "How much is logged.",
    ),
    Declaration::new("logfile", Kind::Text, "", "File to log to; empty = standard output.")
        .startup(),
    Declaration::new(
        "metrics-port",
        Kind::Integer { min: 0, max: 65535 },
        "0",
        "Port for Prometheus (GET /metrics) and health checks (GET /healthz); 0 = none.",
    )
    .startup(),
    Declaration::new(
        "metrics-bind",
        Kind::Special(Special::Addresses),
        "",
        "Addresses to listen on for metrics, as in `bind`; none = those of `bind`.",
    )
    .startup(),
    Declaration::new(
        "slowlog-log-slower-than",
        Kind::Integer { min: -1, max: i64::MAX },
        "10000",
        "Microseconds from which a command enters the slow log; -1 = none does.",
    )
    .live(|l, v| l.slowlog_log_slower_than_us.put(v)),
    Declaration::new("slowlog-max-len", ANY, "128", "Entries the slow log keeps.")
        .live(|l, v| l.slowlog_max_len.put(v)),
    Declaration::new(
        "latency-monitor-threshold",
        ANY,
        "0",
        "Milliseconds from which an event enters the latency monitor; 0 = off.",
    )
    .compat("there is no latency monitor yet.")
    .live(|l, v| l.latency_monitor_threshold_ms.put(v)),
    Declaration::new(
        "latency-tracking",
        Kind::Flag,
        "yes",
        "Whether the time of each command is kept for INFO latencystats.",
    )
    .live(|l, v| l.latency_tracking.put(v))
    .compat("no latency histograms are kept yet."),
    Declaration::new(
        "latency-tracking-info-percentiles",
        Kind::Special(Special::Percentiles),
        "50 99 99.9",
        "Percentiles INFO latencystats shows.",
    ),
    Declaration::new(
        "hz",
        Kind::Clamped { min: 1, max: 500 },
        "10",
        "Rounds of background work a second.",
    )
    .live(|l, v| l.hz.put(v)),
    Declaration::new("enable-debug-command", PROTECTED, "no", "Who may use DEBUG.")
        .startup()
        .live(|l, v| l.put_debug_command(v)),
    Declaration::new(
        "enable-protected-configs",
        PROTECTED,
        "no",
        "Who may change protected options by CONFIG SET; 'local' counts as 'no'.",
    )
    .startup(),
    Declaration::new(
        "crash-log-enabled",
        Kind::Flag,
        "yes",
        "Whether a crash is written to the log.",
    )
    .compat("a panic is always logged."),
    Declaration::new("crash-memcheck-enabled", Kind::Flag, "yes", "Test memory after a crash.")
        .compat("memory is not tested."),
    Declaration::new(
        "watchdog-period",
        Kind::Integer { min: 0, max: INT_MAX },
        "0",
        "Milliseconds after which a stuck command is logged.",
    )
    .hidden()
    .compat("there is no watchdog."),
    Declaration::new("syslog-enabled", Kind::Flag, "no", "Log to the system log.")
        .startup()
        .compat("slotd logs to standard output or a file."),
    Declaration::new("syslog-ident", Kind::Text, "redis", "Name in the system log.")
        .startup()
        .compat("slotd logs to standard output or a file."),
    Declaration::new(
        "syslog-facility",
        Kind::Choice(&[
            "user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
        ]),
        "local0",
        "Facility in the system log.",
    )
    .startup()
    .compat("slotd logs to standard output or a file."),
];
