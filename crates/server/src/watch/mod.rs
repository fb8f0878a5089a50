//! What operators can observe of requests.

pub mod history;
pub mod jobs;
pub mod machine;
pub mod observe;
pub mod slow;
pub mod trace;
pub mod traffic;
pub mod versions;
pub mod watcher;
