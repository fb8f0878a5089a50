//! Work that may wait goes to threads of its own, so that no socket waits behind a disk.

use crate::wire::problem::{Answer, Problem};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Requests whose work is on such threads, or waits for one. A client that goes away leaves its work there, so that
/// there may be more of them than connections.
static HANDED_OFF: Bounded = Bounded { present: AtomicUsize::new(0), most: 32_768 };

/// How many there are, and how many there may be.
struct Bounded {
    present: AtomicUsize,
    most: usize,
}

/// One of them.
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

/// Runs `work` where it may wait. A panic in it is the server's fault, not the client's, and ends this request alone.
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
        // Work that takes its time, and behind it that of clients that ask and go.
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
