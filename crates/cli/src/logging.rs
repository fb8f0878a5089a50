//! The log of `serve`: which events it has, and how their lines look. Its level can change while the server runs.

use server::log::Log;
use std::io::IsTerminal as _;
use std::sync::Arc;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{fmt, registry, reload};

/// Sets the level of the log that was started. Cloning is cheap.
#[derive(Clone)]
pub struct Level(Arc<dyn Fn(LevelFilter) + Send + Sync>);

impl Level {
    /// Makes the log have the events of this level, and of more severe ones, from now on. An event that is not logged
    /// costs no lock, because whether it is wanted is looked up once, and again after each change.
    pub fn set(&self, level: LevelFilter) {
        (self.0)(level);
    }
}

/// Writes events to the log, in colors only at a terminal. Returns what changes the level.
pub fn start(level: LevelFilter, lines: Log) -> Level {
    let is_terminal = std::io::stderr().is_terminal();
    let has_colours = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let log = fmt::layer().with_writer(move || lines.line()).with_ansi(has_colours);
    let log = log.log_internal_errors(false).with_target(false).with_span_events(spans(level));
    let (log, form) = reload::Layer::new(log);
    let (filter, chosen) = reload::Layer::new(filter_of(level));
    registry().with(log).with(filter).init();
    // An error would say that the log has ended, which it never does.
    Level(Arc::new(move |level| {
        let _ = form.modify(|log| log.set_span_events(spans(level)));
        let _ = chosen.reload(filter_of(level));
    }))
}

/// Returns which events are logged.
fn filter_of(level: LevelFilter) -> Targets {
    // The library of HTTP/2 logs every frame.
    Targets::new().with_default(level).with_target("h2", level.min(LevelFilter::WARN))
}

/// Returns which steps of spans are logged. With `debug`, each phase of the engine is, with its duration.
fn spans(level: LevelFilter) -> FmtSpan {
    if level >= LevelFilter::DEBUG { FmtSpan::CLOSE } else { FmtSpan::NONE }
}
