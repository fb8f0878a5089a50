//! The two threads of an open database.
//!
//! * *checkpoint* merges sealed memtables when it is told that there are some, and runs of LSM tables in between, a
//!   slice at a time;
//! * *log* readies the next segment before it is needed and syncs `Lazy` commits within their interval. It is also the
//!   store's clock: four times a second it says what time it is, and looks after readers that have been open long and
//!   after files that the log needs no more, now that nobody writes.
//!
//! Each sleeps until rung; an idle database uses no processor but for the clock's few microseconds a second. While
//! readers hold back what a checkpoint replaced, the first looks twice a second whether they have ended. Both are
//! joined when the database closes.

use crate::leisure;
use crate::pacer::Pacer;
use base::latency::Latencies;
use base::{Error, ErrorKind, Result};
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use store::checkpoint::{Checkpoint, Step};
use store::memory::Attendant;
use store::{OpenReader, Store};

/// How exactly the age of a reader is known. Reading a clock when a snapshot begins would cost more than all the rest
/// of its life.
const TICK: Duration = Duration::from_millis(250);
/// How long a checkpoint that failed waits before it is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// How often it is looked whether a reader has ended that held back memory or space. Ending readers ring no bell: they
/// are to cost nothing.
const RECLAIM: Duration = Duration::from_millis(500);

/// How long a thread that finds no memory waits before it tries again.
const MEMORY_WAIT: Duration = Duration::from_millis(1);

/// Wakes a sleeper: rung any number of times before the sleeper looks, it wakes once.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    pub fn ring(&self) {
        *base::sync::lock(&self.rung) = true;
        self.changed.notify_all();
    }

    /// Returns when the bell was rung, or after `at_most`.
    fn wait(&self, at_most: Option<Duration>) {
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

/// Told of readers that keep much, are open long, or expired.
#[derive(Clone, Default)]
pub(crate) struct ReaderWatch(pub Option<Arc<Told>>);

type Told = dyn Fn(&OpenReader) + Send + Sync;

impl fmt::Debug for ReaderWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Some(..)" } else { "None" })
    }
}

/// How writers find the memory for memtables.
#[derive(Debug)]
pub(crate) enum Room {
    /// There is some.
    Free,
    /// There is none until the checkpoint under way is done: writers wait.
    Full,
    /// There is none, and the last checkpoint failed for this reason: writers are told, until one succeeds.
    Stuck(Error),
    /// No checkpoint comes any more: nobody waits for one. Final.
    Unattended,
}

/// What workers and callers tell each other.
#[derive(Debug)]
pub(crate) struct Signals {
    /// Rung when a memtable was sealed.
    pub checkpoint: Bell,
    /// Rung when the log wants its next segment, or a lazy commit waits for its sync.
    pub log: Bell,
    /// The longest commit record that some transaction expects to write; 0: none since the log thread looked.
    expected_bytes: AtomicU64,
    /// Set by a `Lazy` commit, cleared by the log thread just before it syncs.
    pub lazy_waits: AtomicBool,
    room: Mutex<Room>,
    room_changed: Condvar,
    /// Whether writers have to look at `room`; read without its lock.
    is_full: AtomicBool,
    stop: AtomicBool,
    lazy_interval: Duration,
    started: Instant,
    watch: ReaderWatch,
    /// Set while somebody waits for the memory that checkpoints give back, until there is nothing more to merge.
    memory_wanted: AtomicBool,
    /// Slows writers when merging does not keep up.
    pub pacer: Pacer,
}

impl Signals {
    pub fn new(lazy_interval: Duration, watch: ReaderWatch, latencies: &Arc<Latencies>) -> Self {
        Signals {
            checkpoint: Bell::default(),
            log: Bell::default(),
            expected_bytes: AtomicU64::new(0),
            lazy_waits: AtomicBool::new(false),
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

    /// Says what time it is, looks after readers if the last time was a while ago, and tells of them.
    fn tick(&self, store: &Store, last: &mut Instant) {
        if last.elapsed() < TICK {
            return;
        }
        *last = Instant::now();
        store.tick(self.started.elapsed());
        store.look_after_readers();
        store.rest_log();
        store.look_after_room();
        // What it finds latches: the next commit returns it, or closing does.
        let _ = store.check_in_place();
        store.keep_time();
        let notices = store.take_notices();
        if let ReaderWatch(Some(watch)) = &self.watch {
            // A panic in the caller's function was printed. It must not end the thread that syncs commits, nor keep the
            // next reader from being reported.
            let tell = |reader| panic::catch_unwind(AssertUnwindSafe(|| watch(reader)));
            notices.iter().for_each(|reader| drop(tell(reader)));
        }
    }

    /// Has the log thread make room for a commit record of about `bytes`.
    pub fn expect_record(&self, bytes: u64) {
        self.expected_bytes.fetch_max(bytes, Ordering::SeqCst);
        self.log.ring();
    }

    /// Notes whether the memtables are at their limit.
    pub fn set_full(&self, full: bool) {
        self.set_room(if full { Room::Full } else { Room::Free });
    }

    fn set_room(&self, room: Room) {
        let mut current = base::sync::lock(&self.room);
        if !matches!(*current, Room::Unattended) {
            self.is_full.store(matches!(room, Room::Full | Room::Stuck(_)), Ordering::SeqCst);
            *current = room;
        }
        self.room_changed.notify_all();
    }

    /// Returns when a writer may begin: at once, unless the memtables are at their limit. One load.
    ///
    /// # Errors
    /// The last checkpoint's, if they are at their limit because it failed.
    #[inline]
    pub fn wait_for_room(&self) -> Result<()> {
        if self.is_full.load(Ordering::SeqCst) { self.wait_until_room() } else { Ok(()) }
    }

    /// Whether a writer would wait before it begins, or pay for debt afterwards.
    pub fn holds_writers(&self) -> bool {
        self.is_full.load(Ordering::SeqCst) || self.pacer.is_owed()
    }

    /// Whether the checkpoint under way is to take no time off.
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

    /// Has the threads end that wait.
    pub fn stop_waiting(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.checkpoint.ring();
        self.log.ring();
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

/// What the store is told of its workers.
#[derive(Debug)]
pub(crate) struct Foreman(pub Arc<Signals>);

impl Attendant for Foreman {
    fn merge_soon(&self) {
        self.0.memory_wanted.store(true, Ordering::SeqCst);
        self.0.checkpoint.ring();
    }

    fn wait_a_moment(&self) -> bool {
        thread::sleep(MEMORY_WAIT);
        // Without a worker the database is about to be closed, or has latched: waiters get that error in a moment.
        !matches!(*base::sync::lock(&self.0.room), Room::Stuck(_))
    }
}

/// The running threads.
#[derive(Debug)]
pub(crate) struct Workers {
    signals: Arc<Signals>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub fn start(store: &Arc<Store>, signals: &Arc<Signals>) -> Result<Self> {
        let mut workers = Workers { signals: Arc::clone(signals), threads: Vec::new() };
        workers.spawn("pando-checkpoint", store, run_checkpoints)?;
        workers.spawn("pando-log", store, run_log)?;
        Ok(workers)
    }

    fn spawn(&mut self, name: &str, store: &Arc<Store>, run: fn(&Arc<Store>, &Arc<Signals>)) -> Result<()> {
        let (store, signals) = (Arc::clone(store), Arc::clone(&self.signals));
        let named = name.to_owned();
        let run = move || attend(&named, &store, &signals, run);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
        self.threads
            .push(thread.map_err(|cause| base::Error::io(format!("start the thread {name}"), cause))?);
        Ok(())
    }
}

impl Drop for Workers {
    /// Stops the threads and waits for them: a checkpoint under way is finished first.
    fn drop(&mut self) {
        self.signals.stop_waiting();
        for thread in self.threads.drain(..) {
            // A callback that drops the last handle closes the database on the log thread, which ends by itself then.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

/// Runs a worker. One that panics may have left work half done: the store stops writing, and later commits return the
/// reason.
fn attend(name: &str, store: &Arc<Store>, signals: &Arc<Signals>, run: fn(&Arc<Store>, &Arc<Signals>)) {
    let ended = panic::catch_unwind(AssertUnwindSafe(|| run(store, signals)));
    if let Err(panic) = ended {
        let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
        let said = said.unwrap_or_else(|| "no message".to_owned());
        let message = format!("the thread {name} of the database panicked: {said}");
        store.stop_writing(Error::new(ErrorKind::Latched, message));
        signals.set_room(Room::Unattended);
    }
}

fn run_checkpoints(store: &Arc<Store>, signals: &Arc<Signals>) {
    // However this ends, nobody goes on waiting for it.
    struct Leaving<'a>(&'a Signals);
    impl Drop for Leaving<'_> {
        fn drop(&mut self) {
            self.0.set_room(Room::Unattended);
        }
    }
    let _leaving = Leaving(signals);
    while !signals.stopping() {
        let care = store.care_taken();
        let result = next_checkpoint(store).and_then(|next| match next {
            Some(checkpoint) => make(checkpoint, store, signals).map(|()| true),
            None => Ok(false),
        });
        let full = store.pressure().is_full();
        match result {
            Ok(more) => {
                signals.set_full(full);
                if !more {
                    signals.memory_wanted.store(false, Ordering::SeqCst);
                    let waits = store.waits_for_readers();
                    signals.checkpoint.wait(waits.then_some(RECLAIM));
                    if waits {
                        leisure::within(store, signals, || store.reclaim());
                    }
                }
            }
            // The next write gets the error from the store. There is nothing left to do here.
            Err(error) if matches!(error.kind(), ErrorKind::Latched | ErrorKind::Closed) => break,
            // The disk is full, and a checkpoint that takes what is kept for it has not been tried yet.
            Err(error) if store.is_worth_more_care(&error, care) => {}
            // The sealed memtables are still there. A full disk, or a page that cannot be read, may mend.
            Err(error) => {
                signals.set_room(if full { Room::Stuck(error) } else { Room::Free });
                signals.checkpoint.wait(Some(RETRY));
            }
        }
    }
}

/// The checkpoint that is due: of what is sealed; else a slice of an LSM table, if one is due, or if there is no room.
fn next_checkpoint(store: &Arc<Store>) -> Result<Option<Checkpoint<'_>>> {
    if let Some(pending) = store.begin_pending_checkpoint()? {
        return Ok(Some(pending));
    }
    match store.begin_compaction()? {
        Some(slice) => Ok(Some(slice)),
        None => store.begin_merging_for_room(),
    }
}

/// Makes a checkpoint, and notes for the pace what it took. It pauses while it merges and moves pages, while memtables
/// are freed, and while room and files of the log go: in between there is little, under locks that writers may wait
/// for.
fn make(mut checkpoint: Checkpoint<'_>, store: &Arc<Store>, signals: &Arc<Signals>) -> Result<()> {
    let (begun, bytes) = (Instant::now(), checkpoint.merging_bytes());
    let mut paused = Duration::ZERO;
    let mut step_to = |last: Step| -> Result<()> {
        while checkpoint.next_step() <= last {
            checkpoint.step()?;
        }
        Ok(())
    };
    let mut with_pauses = |work: &mut dyn FnMut() -> Result<()>| {
        let (outcome, took) = leisure::within(store, signals, work);
        paused += took;
        outcome.map(|()| begun.elapsed() - paused)
    };
    step_to(Step::SyncLog)?;
    let records = with_pauses(&mut || step_to(Step::Compact))?;
    with_pauses(&mut || step_to(Step::PhysicalRows))?;
    step_to(Step::SyncSuperblock)?;
    let worked = with_pauses(&mut || step_to(Step::Switch))?;
    store.note_checkpoint(records.as_nanos() as u64, (worked - records).as_nanos() as u64);
    // The memory is back already; what is left takes another flush.
    signals.set_full(store.pressure().is_full());
    step_to(Step::Note)?;
    let worked = with_pauses(&mut || step_to(Step::DropLog))?;
    if bytes > 0 || store.pressure().sealed > 0 {
        signals.pacer.absorbed(bytes, worked);
    }
    Ok(())
}

fn run_log(store: &Arc<Store>, signals: &Arc<Signals>) {
    let mut ticked = Instant::now();
    while !signals.stopping() {
        signals.log.wait(Some(TICK));
        signals.tick(store, &mut ticked);
        ready_log(store, signals);
        while signals.lazy_waits.load(Ordering::SeqCst) && !signals.stopping() {
            wait_lazily(store, signals, &mut ticked);
            // Before the sync: a commit that comes after this asks for the next one, those before are in this one.
            signals.lazy_waits.store(false, Ordering::SeqCst);
            // A failed sync latches; the next write gets the error.
            let _ = store.sync();
        }
    }
}

/// Lets the lazy interval pass, readying segments meanwhile. `lazy_waits` stays set, so that the commits of the
/// interval do not ring: all wait for one sync.
fn wait_lazily(store: &Store, signals: &Signals, ticked: &mut Instant) {
    let due = Instant::now() + signals.lazy_interval;
    while !signals.stopping() {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        signals.log.wait(Some(left.min(TICK)));
        signals.tick(store, ticked);
        ready_log(store, signals);
    }
}

/// Readies a segment if one is due or asked for. A failure shows again, to the caller whom it concerns, when the
/// segment is needed.
fn ready_log(store: &Store, signals: &Signals) {
    let _ = match signals.expected_bytes.swap(0, Ordering::SeqCst) {
        0 => store.prepare_log(&|time| {
            // A sync that is due is not to come late, and closing not to wait.
            let has_time = !signals.stopping() && !signals.lazy_waits.load(Ordering::SeqCst);
            if has_time {
                thread::sleep(time);
            }
            has_time
        }),
        bytes => store.expect_record(bytes),
    };
}
