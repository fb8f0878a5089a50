//! Work that may wait goes to threads of its own, so that no socket waits behind a disk.

use crate::problem::{Answer, Problem};

/// Runs `work` where it may wait. A panic in it is the server's fault, not the client's, and ends this request alone.
pub async fn hand_off<T: Send + 'static>(work: impl FnOnce() -> Answer<T> + Send + 'static) -> Answer<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(failed) => {
            tracing::error!(%failed, "a request's work ended badly");
            Err(Problem::internal("the work on this request ended badly; the server's log says more"))
        }
    }
}
