//! The effects of signals on this process.
//!
//! | signal | effect |
//! |---|---|
//! | SIGTERM, SIGINT, SIGXCPU | `serve`, `watch`, `ship` end in order, `sql` its statement at SIGINT; others at once |
//! | SIGHUP, SIGUSR1, SIGUSR2 | nothing in `serve`; other commands end at once |
//! | SIGXFSZ | nothing: the write that would pass the limit on file sizes fails, as on a full disk |
//! | SIGPIPE | nothing: the write fails |
//!
//! The library does not change its host's signals, so this command does. It sets a handler instead of ignoring the
//! signal, because child processes would inherit the latter.

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Makes SIGINT and SIGTERM set `end` instead of ending the process. A second signal ends it at once.
///
/// # Errors
/// An error of the operating system.
pub fn end_in_order(end: &Arc<AtomicBool>) -> std::io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the first signal must find the flag unset.
        flag::register_conditional_default(signal, Arc::clone(end))?;
        flag::register(signal, Arc::clone(end))?;
    }
    Ok(())
}

/// Makes writes beyond the limit on file sizes (`ulimit -f`, `LimitFSIZE=`) fail instead of ending the process.
pub fn outlive_file_size_limit() {
    // Nothing reads the flag: the handler alone is enough. Without it, the signal would end the process.
    let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}
