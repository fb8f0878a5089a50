//! What signals do to this process.
//!
//! | signal | effect |
//! |---|---|
//! | SIGTERM, SIGINT, SIGXCPU | `serve` and `watch` end in order, `sql` its statement at SIGINT; others at once |
//! | SIGHUP, SIGUSR1, SIGUSR2 | nothing in `serve`; other commands end at once |
//! | SIGXFSZ | nothing: the write that would pass the limit on file sizes fails, as on a full disk |
//! | SIGPIPE | nothing: the write fails |
//!
//! The library leaves its host's signals alone: they are this command's to change. A handler is set, and not "ignore",
//! as that would be inherited by the programs that are started from here.

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Has SIGINT and SIGTERM set `end` instead of ending the process. A second one ends it at once.
///
/// # Errors
/// Those of the operating system.
pub fn end_in_order(end: &Arc<AtomicBool>) -> std::io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag unset.
        flag::register_conditional_default(signal, Arc::clone(end))?;
        flag::register(signal, Arc::clone(end))?;
    }
    Ok(())
}

/// Has writes beyond the limit on file sizes (`ulimit -f`, `LimitFSIZE=`) fail, instead of the signal ending the
/// process.
pub fn outlive_file_size_limit() {
    // The flag is nobody's to read: that there is a handler is enough. Without one it would be as before.
    let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}
