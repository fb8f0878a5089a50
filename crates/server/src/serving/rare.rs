//! The rare events of a connection: the end of the server, an idle client, a lost place.
//!
//! The task of a connection wakes for each request. To poll everything else that could wake it costs more than half a
//! microsecond each time, for events that a request does not cause. [`Rare`] gives their future a waker of its own,
//! which notes the event and wakes the task, and polls the future only then.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A future that is polled only after something has woken it.
#[derive(Debug)]
pub struct Rare<F> {
    future: F,
    bell: Option<Arc<Bell>>,
}

/// The waker of a rare future.
#[derive(Debug)]
struct Bell {
    has_rung: AtomicBool,
    task: Waker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::SeqCst);
        self.task.wake_by_ref();
    }
}

impl<F> Rare<F> {
    /// Wraps a future.
    pub fn new(future: F) -> Self {
        Rare { future, bell: None }
    }

    /// Returns whether the future has to be polled in the task that `waker` wakes.
    #[inline]
    fn is_due(&mut self, waker: &Waker) -> bool {
        match &self.bell {
            // The exchange makes visible what happened before the bell rang. The load before it is what each request
            // pays.
            Some(bell) if bell.task.will_wake(waker) => {
                bell.has_rung.load(Ordering::SeqCst) && bell.has_rung.swap(false, Ordering::SeqCst)
            }
            // The first poll, or another task.
            _ => {
                let has_rung = AtomicBool::new(false);
                self.bell = Some(Arc::new(Bell { has_rung, task: waker.clone() }));
                true
            }
        }
    }
}

impl<F: Future + Unpin> Future for Rare<F> {
    type Output = F::Output;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if !self.is_due(context.waker()) {
            return Poll::Pending;
        }
        let bell = self.bell.clone().expect("it was made when the future became due");
        Pin::new(&mut self.future).poll(&mut Context::from_waker(&Waker::from(bell)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;
    use tokio::sync::Notify;

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn it_is_polled_at_first_and_then_only_after_it_was_woken() {
        let (wakes, polls) = (Arc::new(Count::default()), AtomicUsize::new(0));
        let inner: Mutex<Option<Waker>> = Mutex::new(None);
        let future = std::future::poll_fn(|context: &mut Context<'_>| {
            *inner.lock().unwrap() = Some(context.waker().clone());
            if polls.fetch_add(1, Ordering::SeqCst) < 3 { Poll::Pending } else { Poll::Ready(7) }
        });
        let future = pin!(future);
        let mut rare = Rare::new(future);
        let task = Waker::from(Arc::clone(&wakes));
        let mut poll = |task: &Waker| Pin::new(&mut rare).poll(&mut Context::from_waker(task));
        let counts = || (wakes.0.load(Ordering::SeqCst), polls.load(Ordering::SeqCst));
        for _ in 0..3 {
            assert!(poll(&task).is_pending());
            assert_eq!(counts(), (0, 1));
        }
        let wake = || inner.lock().unwrap().as_ref().unwrap().wake_by_ref();
        wake();
        assert_eq!(counts(), (1, 1));
        for _ in 0..3 {
            assert!(poll(&task).is_pending());
            assert_eq!(counts(), (1, 2));
        }
        // In another task it is polled again, because the first one may not be woken any more.
        let other = Arc::new(Count::default());
        let task = Waker::from(Arc::clone(&other));
        assert!(poll(&task).is_pending());
        assert_eq!(counts(), (1, 3));
        wake();
        assert_eq!((counts(), other.0.load(Ordering::SeqCst)), ((1, 3), 1));
        assert_eq!(poll(&task), Poll::Ready(7));
    }

    #[test]
    fn no_wake_of_another_thread_is_lost() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (there, back) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (heard, said) = (Arc::clone(&there), Arc::clone(&back));
        let other = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                for _ in 0..10_000 {
                    heard.notified().await;
                    said.notify_one();
                }
            });
        });
        runtime.block_on(async {
            for _ in 0..10_000 {
                there.notify_one();
                Rare::new(pin!(back.notified())).await;
            }
        });
        other.join().unwrap();
    }
}
