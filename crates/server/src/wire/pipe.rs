//! A pipe from a thread that may wait to the body of a response. It holds few pieces, and each end can observe the
//! other.
//!
//! 1. The writing end waits while [`KEPT`] pieces have not been taken, until its deadline. A slow client therefore
//!    occupies the memory of a few pieces only, and what is read for it is released at the deadline.
//! 2. After the reading end is dropped because its client disconnected, nothing more can be written, and a [`Watch`]
//!    reports this to the work that runs for it.
//! 3. The end is sent last, without waiting: either everything was written, or an error. If a panic drops the writing
//!    end before, the reading end gets an error that says so.

use crate::wire::problem::{Answer, Problem};
use bytes::Bytes;
use http_body::Frame;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// The number of pieces that wait to be taken.
const KEPT: usize = 2;

/// The error that no more pieces are wanted: the reading end was dropped, or the deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// The writing end.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    deadline: Instant,
}

/// The reading end: the body of a response.
#[derive(Debug)]
pub struct Reader(Arc<Shared>);

/// Reports whether the work is still wanted.
#[derive(Clone, Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    deadline: Instant,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    taken: Condvar,
    gone: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<Bytes>,
    end: Option<Answer<()>>,
    waker: Option<Waker>,
}

/// Creates a pipe and returns both ends.
pub fn pipe(deadline: Instant) -> (Writer, Reader) {
    let shared = Arc::new(Shared::default());
    (Writer { shared: Arc::clone(&shared), deadline }, Reader(shared))
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl State {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Writer {
    /// Returns a handle that reports whether the work is still wanted.
    pub fn watch(&self) -> Watch {
        Watch { shared: Arc::clone(&self.shared), deadline: self.deadline }
    }

    /// Writes a piece as soon as there is room.
    pub fn write(&self, piece: Bytes) -> Result<(), Stopped> {
        let mut state = self.shared.state();
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            // Relaxed: it is stored under the lock that is held here.
            if left.is_zero() || self.shared.gone.load(Ordering::Relaxed) {
                return Err(Stopped);
            }
            if state.pieces.len() < KEPT {
                break;
            }
            let woken = self.shared.taken.wait_timeout(state, left);
            state = woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        state.pieces.push_back(piece);
        state.wake();
        Ok(())
    }

    /// Ends the pipe with the last piece `last`.
    pub fn finish(self, last: Bytes) {
        let mut state = self.shared.state();
        if !last.is_empty() {
            state.pieces.push_back(last);
        }
        state.end = Some(Ok(()));
    }

    /// Ends the pipe with an error.
    pub fn fail(self, problem: Problem) {
        self.shared.state().end = Some(Err(problem));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        let lost = || Err(Problem::internal("the request failed unexpectedly; see the server's log"));
        state.end.get_or_insert_with(lost);
        state.wake();
    }
}

impl Watch {
    /// Returns whether no more pieces are wanted.
    pub fn is_over(&self) -> bool {
        // Relaxed: it orders nothing, and is polled.
        self.shared.gone.load(Ordering::Relaxed) || Instant::now() >= self.deadline
    }
}

impl Reader {
    /// Returns the next piece; `None` at the end.
    #[cfg_attr(not(feature = "sql"), allow(dead_code))] // SQL waits for its first piece.
    pub async fn next(&mut self) -> Option<Answer<Bytes>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Returns a reader that yields `first` before the other pieces.
    #[cfg_attr(not(feature = "sql"), allow(dead_code))] // SQL waits for its first piece.
    pub fn with_first(self, first: Bytes) -> Self {
        self.0.state().pieces.push_front(first);
        self
    }

    /// Returns whether everything was written and taken.
    #[cfg_attr(not(feature = "sql"), allow(dead_code))] // SQL waits for its first piece.
    pub fn is_over(&self) -> bool {
        let state = self.0.state();
        state.pieces.is_empty() && matches!(state.end, Some(Ok(())))
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Answer<Bytes>>> {
        let mut state = self.0.state();
        if let Some(piece) = state.pieces.pop_front() {
            self.0.taken.notify_one();
            return Poll::Ready(Some(Ok(piece)));
        }
        match state.end.replace(Ok(())) {
            Some(Ok(())) => Poll::Ready(None),
            Some(Err(problem)) => Poll::Ready(Some(Err(problem))),
            None => {
                state.end = None;
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let state = self.0.state();
        // Relaxed: `Writer::write` looks under the lock, and `Watch::is_over` polls.
        self.0.gone.store(true, Ordering::Relaxed);
        drop(state);
        self.0.taken.notify_one();
    }
}

impl http_body::Body for Reader {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.get_mut().poll_next(context).map(|next| {
            next.map(|piece| match piece {
                Ok(piece) => Ok(Frame::data(piece)),
                Err(problem) => {
                    tracing::warn!(problem = %problem.detail, "a response was aborted");
                    Err(problem.detail.into())
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[test]
    fn pieces_come_in_order_and_the_end_is_said() {
        let (writer, mut reader) = pipe(soon());
        let writing = thread::spawn(move || {
            (0..100u8).for_each(|n| writer.write(Bytes::from(vec![n])).unwrap());
            writer.finish(Bytes::from_static(b"end"));
        });
        let mut all = Vec::new();
        while let Some(piece) = block_on(reader.next()) {
            all.push(piece.unwrap());
        }
        writing.join().unwrap();
        assert_eq!((all.len(), &all[99][..], &all[100][..]), (101, &[99][..], &b"end"[..]));
        assert!(reader.is_over());
    }

    #[test]
    fn a_reader_that_leaves_or_takes_its_time_stops_the_writer() {
        let (writer, reader) = pipe(soon());
        let watch = writer.watch();
        let writing = thread::spawn(move || (0..).find(|_| writer.write(Bytes::from_static(b"x")).is_err()));
        while reader.0.state().pieces.len() < KEPT {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(20));
        assert!(!writing.is_finished() && !watch.is_over(), "it waits");
        drop(reader);
        assert_eq!(writing.join().unwrap(), Some(KEPT));
        assert!(watch.is_over());
        let begun = Instant::now();
        let (writer, reader) = pipe(begun + Duration::from_millis(50));
        while writer.write(Bytes::from_static(b"x")).is_ok() {}
        assert!(begun.elapsed() >= Duration::from_millis(50) && writer.watch().is_over());
        assert!(!reader.is_over());
    }

    #[test]
    fn failures_and_panics_are_told_after_what_was_written() {
        let (writer, mut reader) = pipe(soon());
        writer.write(Bytes::from_static(b"x")).unwrap();
        writer.fail(Problem::not_found("gone"));
        assert_eq!(block_on(reader.next()).unwrap().unwrap(), "x");
        assert_eq!(block_on(reader.next()).unwrap().unwrap_err().detail, "gone");
        assert!(block_on(reader.next()).is_none());
        let (writer, mut reader) = pipe(soon());
        drop(writer);
        assert_eq!(block_on(reader.next()).unwrap().unwrap_err().status.as_u16(), 500);
    }
}
