//! Hands work that may wait to separate threads, so that no socket waits for a disk.

use crate::wire::problem::{Answer, Problem};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Requests whose work runs on such threads or waits for one. The work of a client that disconnects stays here, so
/// there may be more of them than connections.
static HANDED_OFF: Bounded = Bounded { present: AtomicUsize::new(0), most: 32_768 };

/// The number of handed-off requests, and its limit.
struct Bounded {
    present: AtomicUsize,
    most: usize,
}

/// The place of one handed-off request.
struct Place(&'static Bounded);

impl Bounded {
    fn place(&'static self) -> Answer<Place> {
        let before = self.present.fetch_add(1, Ordering::SeqCst);
        let place = Place(self);
        if before < self.most { Ok(place) } else { Err(Problem::busy("too many requests are waiting")) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.present.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs `work` on a thread that may wait. A panic in it fails only this request, as the server's fault.
pub async fn hand_off<T: Send + 'static>(work: impl FnOnce() -> Answer<T> + Send + 'static) -> Answer<T> {
    hand_off_within(&HANDED_OFF, work).await
}

async fn hand_off_within<T: Send + 'static>(
    bound: &'static Bounded,
    work: impl FnOnce() -> Answer<T> + Send + 'static,
) -> Answer<T> {
    let place = bound.place()?;
    let work = move || {
        let _place = place;
        work()
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(failed) => {
            tracing::error!(%failed, "a request failed unexpectedly");
            Err(Problem::internal("the request failed unexpectedly; see the server's log"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::mpsc::channel;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn work_that_nobody_waits_for_any_more_is_bounded() {
        static BOUND: Bounded = Bounded { present: AtomicUsize::new(0), most: 10 };
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let _inside = runtime.enter();
        let mut context = Context::from_waker(Waker::noop());
        // One long piece of work, and then work of clients that disconnect.
        let (go_on, may_go_on) = channel::<()>();
        let slow = move || {
            may_go_on.recv().unwrap();
            Ok(())
        };
        let mut first = Box::pin(hand_off_within(&BOUND, slow));
        assert!(first.as_mut().poll(&mut context).is_pending());
        let asked: Vec<Option<u16>> = (0..12)
            .map(|_| match pin!(hand_off_within(&BOUND, || Ok(()))).poll(&mut context) {
                Poll::Ready(answer) => Some(answer.unwrap_err().status.as_u16()),
                Poll::Pending => None,
            })
            .collect();
        assert_eq!(asked, [[None; 9].as_slice(), &[Some(503); 3]].concat());
        go_on.send(()).unwrap();
        runtime.block_on(first).unwrap();
        while BOUND.present.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        runtime.block_on(hand_off_within(&BOUND, || Ok(()))).unwrap();
    }
}
