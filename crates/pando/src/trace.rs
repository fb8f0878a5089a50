//! Spans of `tracing` at the engine's phase boundaries: the feature `tracing`.
//!
//! | span | level | fields |
//! |---|---|---|
//! | `recovery` | info | |
//! | `checkpoint` | debug | `number`, `step` |
//! | `seal` | debug | |
//! | `log_flush` | trace | |
//!
//! The target of all spans is `pando`. While nothing subscribes, a span costs a comparison with the process's greatest
//! level ([why here](https://github.com/pando-db/pando/blob/main/docs/decisions/0025-tracing.md)).

use base::phases::{self, Phase};
use tracing::{debug_span, info_span, trace_span};

/// Starts to make spans. The first database that is opened calls it.
pub(crate) fn begin() {
    // An existing hook stays.
    let _ = phases::listen(spanned);
}

fn spanned(phase: Phase, work: &mut dyn FnMut()) {
    let span = match phase {
        Phase::Recovery => info_span!(target: "pando", "recovery"),
        Phase::Seal => debug_span!(target: "pando", "seal"),
        Phase::LogFlush => trace_span!(target: "pando", "log_flush"),
        Phase::Checkpoint { number, step } => debug_span!(target: "pando", "checkpoint", number, step),
    };
    span.in_scope(work);
}
