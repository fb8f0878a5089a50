//! What operators can observe of requests.

pub mod observe;
pub mod slow;
pub mod trace;
pub mod watcher;
