//! Spans of `tracing` at the engine's phase boundaries: the feature `tracing`.
//!
//! | span | level | fields |
//! |---|---|---|
//! | `recovery` | info | |
//! | `checkpoint` | debug | `number`, `step` |
//! | `seal` | debug | |
//! | `log_flush` | trace | |
//!
//! All with the target `pando`. What they cost while nobody subscribes: a comparison with the process's greatest level
//! ([why here](https://github.com/pando-db/pando/blob/main/docs/decisions/0025-tracing.md)).

use base::phases::{self, Phase};
use tracing::{debug_span, info_span, trace_span};

/// Makes spans from now on. The first database that is opened does it.
pub(crate) fn begin() {
    // Another hook stays: it was there first.
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
