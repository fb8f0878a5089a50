//! The signals between the two threads of a database and its callers.

use crate::pacer::Pacer;
use base::latency::Latencies;
use base::{Error, Result};
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::Wake;
use std::thread;
use std::time::{Duration, Instant};
use store::memory::Attendant;
use store::{OpenReader, Store};

/// The precision of a reader's age. Reading a clock when a snapshot begins would cost more than the rest of its life.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// The wait of a thread that finds no memory before it tries again.
const MEMORY_WAIT: Duration = Duration::from_millis(1);

/// A bell that wakes a sleeper: however often it rings before the sleeper looks, the sleeper wakes once.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
}

impl Bell {
    pub fn ring(&self) {
        // The first ring has woken the sleeper, which has not looked yet.
        if !std::mem::replace(&mut *base::sync::lock(&self.rung), true) {
            self.changed.notify_all();
        }
    }

    /// Waits until the bell rings, or for `at_most`.
    pub fn wait(&self, at_most: Option<Duration>) {
        let mut rung = base::sync::lock(&self.rung);
        while !*rung {
            match at_most {
                None => rung = self.changed.wait(rung).unwrap_or_else(|poisoned| poisoned.into_inner()),
                Some(limit) => {
                    let waited = self.changed.wait_timeout(rung, limit);
                    rung = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
                    break;
                }
            }
        }
        *rung = false;
    }
}

/// The program's callback for readers that keep much, are open long, or have expired.
#[derive(Clone, Default)]
pub(crate) struct ReaderWatch(pub Option<Arc<ReaderCallback>>);

type ReaderCallback = dyn Fn(&OpenReader) + Send + Sync;

impl fmt::Debug for ReaderWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Some(..)" } else { "None" })
    }
}

/// The state of the memory for memtables, as writers see it.
#[derive(Debug)]
pub(crate) enum Room {
    /// There is memory.
    Free,
    /// There is none until the checkpoint in progress is done: writers wait.
    Full,
    /// There is none, and the last checkpoint failed for this reason. Writes return it until a checkpoint succeeds.
    Stuck(Error),
    /// No checkpoint will come, and no thread waits for one. This state is final.
    Unattended,
}

/// The signals between workers and callers.
#[derive(Debug)]
pub(crate) struct Signals {
    /// The bell that rings when a memtable was sealed.
    pub checkpoint: Bell,
    /// The bell that rings when the log wants its next segment, or a lazy commit waits for its sync.
    pub log: Bell,
    /// The longest commit record that a transaction expects to write; 0: none since the log thread looked.
    pub expected_bytes: AtomicU64,
    /// The time when the first `Lazy` commit that waits for its sync was made, in nanoseconds since `started`; 0: none
    /// waits. The commit sets it, and the log thread clears it just before it syncs.
    lazy_since_ns: AtomicU64,
    room: Mutex<Room>,
    room_changed: Condvar,
    /// Whether writers have to look at `room`; read without its lock.
    is_full: AtomicBool,
    pub stop: AtomicBool,
    pub lazy_interval: Duration,
    started: Instant,
    watch: ReaderWatch,
    /// A flag that is set while a thread waits for memory that checkpoints free, until there is nothing more to merge.
    pub memory_wanted: AtomicBool,
    /// The pacer, which slows writers when merging does not keep up.
    pub pacer: Pacer,
}

impl Signals {
    pub fn new(lazy_interval: Duration, watch: ReaderWatch, latencies: &Arc<Latencies>) -> Self {
        Signals {
            checkpoint: Bell::default(),
            log: Bell::default(),
            expected_bytes: AtomicU64::new(0),
            lazy_since_ns: AtomicU64::new(0),
            room: Mutex::new(Room::Free),
            room_changed: Condvar::new(),
            is_full: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            lazy_interval,
            started: Instant::now(),
            watch,
            memory_wanted: AtomicBool::new(false),
            pacer: Pacer::new(Arc::clone(latencies)),
        }
    }

    /// Sets the store's time; if the last check was a while ago, checks the readers and reports them.
    pub fn tick(&self, store: &Store, last: &mut Instant) {
        if last.elapsed() < TICK {
            return;
        }
        *last = Instant::now();
        store.tick(self.started.elapsed());
        if store.look_after_readers() {
            self.checkpoint.ring();
        }
        store.rest_log();
        store.rest_memory();
        store.look_after_room();
        // An error here latches: the next commit or the close returns it.
        let _ = store.check_in_place();
        store.keep_time();
        store.wake_owed();
        let notices = store.take_notices();
        if let ReaderWatch(Some(watch)) = &self.watch {
            // A panic in the caller's function was printed. It must not end the thread that syncs commits, nor keep the
            // next reader from being reported.
            let notify = |reader| panic::catch_unwind(AssertUnwindSafe(|| watch(reader)));
            notices.iter().for_each(|reader| drop(notify(reader)));
        }
    }

    /// Asks the log thread to make room for a commit record of about `bytes`.
    pub fn expect_record(&self, bytes: u64) {
        self.expected_bytes.fetch_max(bytes, Ordering::SeqCst);
        self.log.ring();
    }

    /// Asks the log thread to sync a `Lazy` commit that was just made within the interval.
    #[inline]
    pub fn want_lazy_sync(&self) {
        // If an earlier commit waits, the thread has not begun the sync, which then covers this one, too.
        if self.lazy_since_ns.load(Ordering::SeqCst) == 0 {
            self.want_first_lazy_sync();
        }
    }

    #[cold]
    fn want_first_lazy_sync(&self) {
        let now_ns = (self.started.elapsed().as_nanos() as u64).max(1);
        if self.lazy_since_ns.compare_exchange(0, now_ns, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.log.ring();
        }
    }

    /// Returns when the `Lazy` commits that wait must be synced; `None`: none waits.
    pub fn lazy_sync_due(&self) -> Option<Instant> {
        let since_ns = self.lazy_since_ns.load(Ordering::SeqCst);
        (since_ns > 0).then(|| self.started + Duration::from_nanos(since_ns) + self.lazy_interval)
    }

    /// Notes that a sync begins: a later commit asks for the next one, and earlier commits are in this one.
    pub fn begin_lazy_sync(&self) {
        self.lazy_since_ns.store(0, Ordering::SeqCst);
    }

    /// Notes whether the memtables are at their limit.
    pub fn set_full(&self, full: bool) {
        self.set_room(if full { Room::Full } else { Room::Free });
    }

    /// Notes that the debt is at its ceiling.
    pub fn note_full(&self) {
        self.set_full(true);
        // The worker may have ended meanwhile, and would not announce again that there is room.
        self.checkpoint.ring();
    }

    pub fn set_room(&self, room: Room) {
        let mut current = base::sync::lock(&self.room);
        if !matches!(*current, Room::Unattended) {
            self.is_full.store(matches!(room, Room::Full | Room::Stuck(_)), Ordering::SeqCst);
            *current = room;
        }
        self.room_changed.notify_all();
    }

    /// Waits until a writer may begin: not at all, unless the memtables are at their limit. It costs one load.
    ///
    /// # Errors
    /// The error of the last checkpoint, if the memtables are at their limit because it failed.
    #[inline]
    pub fn wait_for_room(&self) -> Result<()> {
        if self.is_full.load(Ordering::SeqCst) { self.wait_until_room() } else { Ok(()) }
    }

    /// Returns whether a writer would wait before it begins.
    #[cfg(feature = "aio")]
    pub fn has_no_room(&self) -> bool {
        self.is_full.load(Ordering::SeqCst)
    }

    /// Returns whether a writer would wait before it begins, or pay for debt afterwards.
    pub fn holds_writers(&self) -> bool {
        self.is_full.load(Ordering::SeqCst) || self.pacer.is_owed()
    }

    /// Returns whether the checkpoint in progress should not pause.
    pub fn wants_checkpoints_soon(&self) -> bool {
        self.stopping() || self.memory_wanted.load(Ordering::SeqCst) || self.holds_writers()
    }

    #[cold]
    fn wait_until_room(&self) -> Result<()> {
        let begun = Instant::now();
        let result = self.wait_until_room_uncounted();
        self.pacer.count_full(begun.elapsed().as_nanos() as u64);
        result
    }

    fn wait_until_room_uncounted(&self) -> Result<()> {
        let mut room = base::sync::lock(&self.room);
        loop {
            match &*room {
                Room::Full => {}
                Room::Stuck(cause) => {
                    let what = "the memory for writes is full, and the last checkpoint, which would have \
                                freed it, failed";
                    return Err(cause.duplicate().within(what));
                }
                Room::Free | Room::Unattended => return Ok(()),
            }
            room = base::sync::wait(&self.room_changed, room);
        }
    }

    /// Waits for `at_most`. Returns whether the database is being closed.
    pub fn wait_to_follow(&self, at_most: Duration) -> bool {
        self.log.wait(Some(at_most));
        self.stopping()
    }

    /// Ends the waits of the threads.
    pub fn stop_waiting(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.checkpoint.ring();
        self.log.ring();
    }

    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

/// The way in which the store wakes its workers.
#[derive(Debug)]
pub(crate) struct Foreman(pub Arc<Signals>);

impl Attendant for Foreman {
    fn merge_soon(&self) {
        self.0.memory_wanted.store(true, Ordering::SeqCst);
        self.0.checkpoint.ring();
    }

    fn wait_a_moment(&self) -> bool {
        thread::sleep(MEMORY_WAIT);
        // Without a worker the database is closing or has latched, so the waiters get that error in a moment.
        !matches!(*base::sync::lock(&self.0.room), Room::Stuck(_))
    }
}
