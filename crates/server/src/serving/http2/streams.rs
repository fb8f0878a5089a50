//! The streams of one connection: which of them run, which stall, and how many the client has reset.
//!
//! Everything here runs on the thread of the connection. The atomics and the locks are never contended; they are there
//! because tasks must be able to move.

use crate::calls::call::ResultMemory;
use crate::limits::room::{FREE_ANSWER_BYTES, Room, kib_of};
use crate::serving::http2::reply::Reply;
use crate::serving::patience::LOOKS;
use crate::watch::trace::REQUEST_ID;
use crate::watch::watcher::Watch;
use crate::wire::body::{Body, Working};
use crate::wire::problem::{Answer, Problem};
use http_body::Body as _;
use hyper::Response;
use hyper::header::{ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, HeaderName, VARY};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::{Interval, sleep};

/// The memory of responses that a connection may hold before they are counted with those of all clients.
const FREE_BYTES: usize = 256 << 10;
/// A response up to this length is sent in one piece and never counted.
const TINY_BYTES: usize = 4 << 10;

/// The streams of a connection.
pub struct Streams {
    room: Arc<Room>,
    watch: Arc<Watch>,
    /// The streams whose tasks wait for something. Most streams have no task, or one that never waits.
    waiting: Mutex<Vec<Arc<OneStream>>>,
    begun_count: AtomicU64,
    most_resets: u32,
    resets_left: AtomicU32,
    exhausted: Notify,
    /// The memory of responses that are not sent yet.
    unsent_bytes: AtomicUsize,
}

/// One stream.
#[derive(Debug, Default)]
pub struct OneStream {
    /// Whether the client waits for the server.
    working: Working,
    /// The number of pieces that the client has taken.
    pieces: AtomicU64,
    is_complete: AtomicBool,
    /// Ends the stream.
    cut: Arc<Notify>,
    /// The pieces at the last look, and how many looks found no more.
    seen: AtomicU64,
    quiet: AtomicU32,
}

impl OneStream {
    /// Notes that the handler has returned the head of the response.
    pub fn responds(&self) {
        self.working.set(false);
    }

    /// Notes whether the server looks for the next piece of the body.
    pub fn looks(&self, looks: bool) {
        self.working.set(looks);
    }

    /// Notes that a piece was handed over.
    pub fn hand_over(&self) {
        self.pieces.fetch_add(1, Ordering::Relaxed); // Relaxed: only one thread uses it.
    }

    /// Notes that the whole response was handed over, or that the server itself has broken it off.
    pub fn complete(&self) {
        self.is_complete.store(true, Ordering::Relaxed); // Relaxed: as above.
    }

    /// Returns what ends the stream.
    pub fn cut(&self) -> &Arc<Notify> {
        &self.cut
    }

    /// Ends the stream if its client has taken nothing at as many looks in a row as fit into its patience.
    fn look(&self) {
        // Relaxed for all: only one thread uses them.
        let pieces = self.pieces.load(Ordering::Relaxed);
        if self.working.get() || self.seen.swap(pieces, Ordering::Relaxed) != pieces {
            self.quiet.store(0, Ordering::Relaxed);
        } else if self.quiet.fetch_add(1, Ordering::Relaxed) + 1 >= LOOKS {
            tracing::debug!("a stream whose client took nothing was reset");
            self.complete();
            self.cut.notify_one();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Streams {
    /// Creates the streams of a connection that has none yet.
    pub fn new(room: Arc<Room>, watch: Arc<Watch>, most_resets: u32) -> Arc<Self> {
        Arc::new(Streams {
            room,
            watch,
            waiting: Mutex::default(),
            begun_count: AtomicU64::new(0),
            most_resets,
            resets_left: AtomicU32::new(most_resets),
            exhausted: Notify::new(),
            unsent_bytes: AtomicUsize::new(0),
        })
    }

    /// Returns what is counted of requests.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Notes that a stream begins.
    pub fn begin(&self) {
        self.begun_count.fetch_add(1, Ordering::Relaxed); // Relaxed: only one thread uses it.
    }

    /// Spawns the task of a stream, whose client waits for the server, on the thread of its connection.
    pub fn spawn<F>(self: &Arc<Self>, task: impl FnOnce(Arc<OneStream>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stream = Arc::new(OneStream::default());
        stream.working.set(true);
        // Each future around the task would hold and move it once more.
        tokio::spawn(Arc::clone(self).run(Arc::clone(&stream), task(stream)));
    }

    /// Runs the task of a stream to its end.
    async fn run(self: Arc<Self>, stream: Arc<OneStream>, task: impl Future<Output = ()>) {
        let mut task = pin!(task);
        if poll_fn(|context| Poll::Ready(task.as_mut().poll(context))).await.is_pending() {
            let _waiting = Waiting::begin(&self, &stream);
            tokio::select! {
                biased;
                () = task => {}
                () = stream.cut.notified() => stream.complete(),
            }
        }
        self.ended(stream.is_complete.load(Ordering::Relaxed)); // Relaxed: only one thread uses it.
    }

    /// Notes the end of a stream: `is_complete`, or reset by the client.
    pub fn ended(&self, is_complete: bool) {
        // Relaxed for all: only one thread uses it.
        let left = self.resets_left.load(Ordering::Relaxed);
        if is_complete {
            self.resets_left.store((left + 1).min(self.most_resets), Ordering::Relaxed);
            return;
        }
        self.watch.versions.reset();
        match left.checked_sub(1) {
            Some(left) => self.resets_left.store(left, Ordering::Relaxed), // Relaxed: as above.
            None => self.exhausted.notify_one(),
        }
    }

    /// Returns after the client has reset too many streams.
    pub async fn exhausted(&self) {
        self.exhausted.notified().await;
    }

    /// Returns after the connection had no stream for the time of [`LOOKS`] `look`s. Meanwhile it ends streams that
    /// stall for as long.
    pub async fn idle(&self, mut look: Interval) {
        let (mut seen, mut quiet) = (0, 0);
        while quiet < LOOKS {
            look.tick().await;
            let waiting = lock(&self.waiting);
            waiting.iter().for_each(|stream| stream.look());
            let begun = self.begun_count.load(Ordering::Relaxed); // Relaxed: only one thread uses it.
            let is_quiet = waiting.is_empty() && begun == seen;
            (seen, quiet) = (begun, if is_quiet { quiet + 1 } else { 0 });
        }
    }

    /// Returns after no stream has begun for `time`, and none waits.
    pub async fn quiet(&self, time: Duration) {
        let begun = || self.begun_count.load(Ordering::Relaxed); // Relaxed: only one thread uses it.
        let mut seen = begun();
        loop {
            sleep(time).await;
            let is_quiet = lock(&self.waiting).is_empty() && begun() == seen;
            if is_quiet {
                return;
            }
            seen = begun();
        }
    }

    /// Counts the memory of a response until it was sent, or keeps as much as it needs of what was `promised`. A
    /// response to a read is replaced by a refusal if there is no memory for it. Any other response is short, promised,
    /// or counted by its handler, and must not be lost.
    ///
    /// What was promised is kept for a longer response, too: the results of SQL can be a little longer than
    /// [`FREE_ANSWER_BYTES`], and no handler counts those.
    pub fn charge(
        self: &Arc<Self>,
        response: Response<Body>,
        is_read: bool,
        has_place: bool,
        promised: Option<Charge>,
    ) -> Reply {
        let bytes = match response.body() {
            Body::Whole(_) => response.body().size_hint().exact().unwrap_or_default() as usize,
            Body::Pieces { .. } if has_place => 0,
            Body::Pieces { .. } => FREE_ANSWER_BYTES,
        };
        if bytes <= TINY_BYTES {
            return Reply { response, charge: None };
        }
        if let Some(mut charge) = promised {
            charge.shrink(bytes);
            return Reply { response, charge: Some(charge) };
        }
        // Longer ones are counted already.
        if !is_read || bytes > FREE_ANSWER_BYTES {
            return Reply { response, charge: None };
        }
        match self.count(bytes) {
            Ok(charge) => Reply { response, charge: Some(charge) },
            Err(problem) => {
                self.watch.traffic.refused(problem.kind);
                Reply { response: instead_of(&response, &problem), charge: None }
            }
        }
    }

    /// Counts memory of a response: that of the connection, and beyond it, that of all clients.
    fn count(self: &Arc<Self>, bytes: usize) -> Answer<Charge> {
        let unsent = self.unsent_bytes.load(Ordering::Relaxed); // Relaxed: only one thread uses it.
        let memory = match unsent + bytes > FREE_BYTES {
            true => Some(self.room.counted_memory(bytes)?),
            false => None,
        };
        self.unsent_bytes.fetch_add(bytes, Ordering::Relaxed); // Relaxed: as above.
        Ok(Charge { streams: Arc::clone(self), bytes, memory })
    }

    /// Notes that a response was sent, or is not wanted any more.
    fn sent(&self, bytes: usize) {
        self.unsent_bytes.fetch_sub(bytes, Ordering::Relaxed); // Relaxed: only one thread uses it.
    }
}

/// Returns the refusal of a response. What is about the request stays: its id, and what a browser must see before it
/// shows the refusal to its page.
fn instead_of(response: &Response<Body>, problem: &Problem) -> Response<Body> {
    const OF_REQUESTS: [HeaderName; 4] =
        [REQUEST_ID, VARY, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS];
    let mut refusal = problem.response();
    for name in OF_REQUESTS {
        for value in response.headers().get_all(&name) {
            refusal.headers_mut().append(&name, value.clone());
        }
    }
    refusal
}

/// The memory for the results of a request's statements. Their handler counts it before they run, and so refuses them
/// before they change anything.
pub struct Promise {
    streams: Arc<Streams>,
    charge: Mutex<Option<Charge>>,
}

impl Promise {
    /// Creates a promise, for which nothing is counted yet.
    pub fn new(streams: &Arc<Streams>) -> Arc<Self> {
        Arc::new(Promise { streams: Arc::clone(streams), charge: Mutex::default() })
    }

    /// Returns what the handler counts the memory with.
    pub fn results(self: &Arc<Self>) -> ResultMemory {
        let promise = Arc::clone(self);
        ResultMemory(Arc::new(move || promise.keep()))
    }

    /// Counts the memory.
    ///
    /// # Errors
    /// 503 if the responses that this client has not received fill what it may hold, and those of all clients fill
    /// theirs.
    fn keep(&self) -> Answer<()> {
        *lock(&self.charge) = Some(self.streams.count(FREE_ANSWER_BYTES)?);
        Ok(())
    }

    /// Takes what was counted.
    pub fn take(&self) -> Option<Charge> {
        lock(&self.charge).take()
    }
}

/// The memory that is counted for a response.
pub struct Charge {
    streams: Arc<Streams>,
    bytes: usize,
    /// The part of it that all clients share.
    memory: Option<OwnedSemaphorePermit>,
}

impl Charge {
    /// Counts no more than `bytes` from now on.
    fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.streams.sent(self.bytes - bytes);
        self.bytes = bytes;
        if let Some(memory) = &mut self.memory {
            drop(memory.split(memory.num_permits().saturating_sub(kib_of(bytes))));
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.streams.sent(self.bytes);
    }
}

/// A stream among those that wait, until this is dropped. A task that panics does not stay there, where it would keep
/// its connection from being idle.
struct Waiting<'s> {
    streams: &'s Streams,
    stream: &'s Arc<OneStream>,
}

impl<'s> Waiting<'s> {
    fn begin(streams: &'s Streams, stream: &'s Arc<OneStream>) -> Self {
        lock(&streams.waiting).push(Arc::clone(stream));
        Waiting { streams, stream }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        lock(&self.streams.waiting).retain(|other| !Arc::ptr_eq(other, self.stream));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Limits;
    use tokio::runtime::Builder;
    use tokio::task::yield_now;

    fn streams() -> Arc<Streams> {
        let limits = Limits::default();
        let watch = Arc::new(Watch::new(limits.slow, None, 0, None).unwrap());
        Streams::new(Arc::new(Room::new(&limits)), watch, 1)
    }

    fn whole(bytes: usize) -> Response<Body> {
        Response::new(Body::whole(vec![7; bytes]))
    }

    fn unsent(streams: &Streams) -> usize {
        streams.unsent_bytes.load(Ordering::Relaxed)
    }

    #[test]
    fn responses_count_until_they_are_sent() {
        let streams = streams();
        let all = streams.room.counted_memory(256 << 20).unwrap();
        let read = |bytes| streams.charge(whole(bytes), true, false, None);
        let held: Vec<Reply> = (0..4).map(|_| read(FREE_ANSWER_BYTES)).collect();
        assert!(held.iter().all(|reply| reply.charge.is_some()));
        assert_eq!(unsent(&streams), FREE_BYTES);
        // What the connection has of its own is full, and so is what all share.
        let mut response = whole(TINY_BYTES + 1);
        response.headers_mut().insert(REQUEST_ID, "id".parse().unwrap());
        response.headers_mut().insert("etag", "of the body".parse().unwrap());
        let refused = streams.charge(response, true, false, None);
        assert_eq!((refused.response.status().as_u16(), refused.charge.is_some()), (503, false));
        assert_eq!(refused.response.headers()[REQUEST_ID], "id");
        assert!(!refused.response.headers().contains_key("etag"));
        assert_eq!(read(TINY_BYTES).response.status(), 200);
        let longer = read(FREE_ANSWER_BYTES + 1);
        assert_eq!(
            (longer.response.status().as_u16(), longer.charge.is_some()),
            (200, false),
            "see its handler"
        );
        let write = streams.charge(whole(FREE_ANSWER_BYTES), false, false, None);
        assert_eq!(write.response.status(), 200, "what was written must not be lost");
        drop(all);
        let shared = read(FREE_ANSWER_BYTES);
        assert_eq!(shared.response.status(), 200);
        assert!(streams.room.counted_memory((256 << 20) - (64 << 10) + 1).is_err());
        drop((held, shared));
        assert_eq!(unsent(&streams), 0);
        assert!(streams.room.counted_memory(256 << 20).is_ok());
    }

    #[test]
    fn results_of_statements_count_from_before_they_run() {
        let streams = streams();
        let promised = || {
            let promise = Promise::new(&streams);
            assert!(promise.take().is_none(), "nothing is counted before the handler asks for it");
            (promise.results().0)().map(|()| promise.take().unwrap())
        };
        let reply = |response| streams.charge(response, false, false, Some(promised().unwrap()));
        let pieces = || Response::new(Body::from(axum::body::Body::from("x")));
        for (response, counted) in [
            (whole(TINY_BYTES), 0),
            (whole(10 << 10), 10 << 10),
            (whole(FREE_ANSWER_BYTES), FREE_ANSWER_BYTES),
            (whole(FREE_ANSWER_BYTES + 100), FREE_ANSWER_BYTES),
            (pieces(), FREE_ANSWER_BYTES),
        ] {
            let reply = reply(response);
            assert_eq!(unsent(&streams), counted);
            drop(reply);
            assert_eq!(unsent(&streams), 0);
        }
        // Beyond what the connection has of its own, a shorter result gives back what all share.
        let own: Vec<Charge> = (0..4).map(|_| promised().unwrap()).collect();
        let others = streams.room.counted_memory((256 << 20) - (64 << 10)).unwrap();
        let short = reply(whole(10 << 10));
        assert!(streams.room.counted_memory(55 << 10).is_err());
        let rest = streams.room.counted_memory(54 << 10).unwrap();
        assert_eq!(promised().err().map(|problem| problem.status.as_u16()), Some(503));
        drop((own, others, short, rest));
        assert_eq!(unsent(&streams), 0);
        assert!(streams.room.counted_memory(256 << 20).is_ok());
    }

    #[test]
    fn a_task_that_panics_does_not_wait_for_ever() {
        let streams = streams();
        let (running, stream) = (Arc::clone(&streams), Arc::new(OneStream::default()));
        let task = async move {
            yield_now().await;
            assert_eq!(lock(&running.waiting).len(), 1);
            panic!("on purpose");
        };
        let running = Arc::clone(&streams);
        let runtime = Builder::new_current_thread().build().unwrap();
        let ended = runtime.block_on(async { tokio::spawn(running.run(stream, task)).await });
        assert!(ended.unwrap_err().is_panic());
        assert!(lock(&streams.waiting).is_empty());
    }
}
