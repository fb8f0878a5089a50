//! Writes of all connections, committed together.
//!
//! 1. What a connection has to write is a job: commands that it sent without waiting for replies, or a transaction.
//!    The connection waits for its outcome.
//! 2. One of the waiting threads is the leader. It takes the waiting jobs, up to a bound, runs their commands one after
//!    the other in one transaction, and commits it: one record of the log and one flush, for any number of connections.
//! 3. It passes the outcomes on, and makes the thread of the first job that came meanwhile the next leader.
//!
//! So commands have an order, and connections never conflict with each other, also if all of them increment one key. A
//! conflict is possible with writers of the same tables that are no clients of this door; the jobs then run again.

use crate::commands::call::Around;
use crate::commands::{self, COMMANDS};
use crate::fault::Fault;
use crate::host::Host;
use crate::layout::{LAYOUT, LAYOUT_KEY};
use crate::space::{Source, Space};
use crate::tables::{DATABASES, Slot, Tables, refusal, table_name};
use crate::versions::Versions;
use crate::watched::{self, Watches};
use crate::wire::reply::{Out, Protocol};
use crate::wire::request::Command;
use pando::{Durability, Error, ErrorKind, Isolation, Result, TransactionOptions};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most bytes of commands that are committed together, unless one job has more.
const BATCH_BYTES: usize = 1 << 20;
/// The most jobs that are committed together.
const BATCH_JOBS: usize = 1024;
/// The length of replies after which the rest of a job has to wait for the next commit.
const MOST_REPLIES_BYTES: usize = 1 << 20;
/// The number of expired keys that are removed in one transaction.
const SWEPT: usize = 1000;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a job does.
#[derive(Debug)]
pub enum Work {
    /// The commands from a place on, each with its index. Not all of them need to run in the same transaction.
    Commands(Arc<Vec<(usize, Command)>>, usize),
    /// A command that pops, of a client that waits for an element.
    Waiting(Arc<Vec<(usize, Command)>>),
    /// The commands between MULTI and EXEC, which run if the watched keys are unchanged.
    Unit(Vec<(usize, Command)>, Watches),
    /// The removal of expired keys.
    Sweep,
}

/// The outcome of a job.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The replies.
    pub replies: Out,
    /// The number of commands that ran.
    pub ran: usize,
    /// Whether the last command found nothing to pop.
    pub would_block: bool,
    /// The number of expiries that a sweep has processed.
    pub swept: usize,
    /// The database that was chosen at the end.
    pub database: usize,
}

#[derive(Debug)]
enum State {
    Waiting,
    Leading,
    Done(std::result::Result<Outcome, String>),
}

/// The writes of a connection.
#[derive(Debug)]
pub struct Job {
    database: usize,
    protocol: Protocol,
    work: Work,
    state: Mutex<State>,
    changed: Condvar,
}

impl Job {
    /// Creates a job on a database, with replies in this version.
    pub fn new(database: usize, protocol: Protocol, work: Work) -> Arc<Self> {
        let (state, changed) = (Mutex::new(State::Waiting), Condvar::new());
        Arc::new(Job { database, protocol, work, state, changed })
    }

    fn commands(&self) -> &[(usize, Command)] {
        match &self.work {
            Work::Commands(commands, from) => &commands[*from..],
            Work::Waiting(commands) => commands,
            Work::Unit(commands, _) => commands,
            Work::Sweep => &[],
        }
    }

    /// Returns the databases that commands name, perhaps with others.
    fn other_databases(&self) -> impl Iterator<Item = usize> {
        let names_one = |index: usize| matches!(COMMANDS[index].name, "select" | "move" | "copy");
        let commands = self.commands().iter().filter(move |(index, _)| names_one(*index));
        let words = commands.flat_map(|(_, command)| command.from(1));
        let numbers = words.filter_map(|word| std::str::from_utf8(word).ok()?.parse::<usize>().ok());
        numbers.filter(|&database| database < DATABASES)
    }

    fn size_bytes(&self) -> usize {
        self.commands().iter().map(|(_, command)| command.size_bytes()).sum()
    }

    fn set(&self, state: State) {
        let mut own = locked(&self.state);
        if !matches!(*own, State::Done(_)) {
            *own = state;
        }
        self.changed.notify_all();
    }
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Arc<Job>>,
    is_led: bool,
}

/// Where clients wait until a list or a sorted set gets an element.
#[derive(Debug, Default)]
pub struct Pushes {
    count: Mutex<u64>,
    changed: Condvar,
}

impl Pushes {
    /// Returns the number of commits so far that added elements.
    pub fn count(&self) -> u64 {
        *locked(&self.count)
    }

    fn note(&self) {
        *locked(&self.count) += 1;
        self.changed.notify_all();
    }

    /// Waits until the number is no longer `seen`, or for `at_most`.
    pub fn wait(&self, seen: u64, at_most: Duration) {
        let until = Instant::now() + at_most;
        let mut count = locked(&self.count);
        while *count == seen {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            count = self.changed.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Commits the jobs of all connections.
#[derive(Debug)]
pub struct Committer {
    host: Arc<dyn Host>,
    durability: Durability,
    queue: Mutex<Queue>,
    tables: Mutex<Arc<Tables>>,
    /// The source of versions, and the time.
    pub versions: Versions,
    /// Where clients wait for elements.
    pub pushes: Pushes,
}

/// What a transaction of several jobs leads to.
#[derive(Debug, Default)]
struct Effects {
    outcomes: Vec<Outcome>,
    messages: Vec<(Vec<u8>, Vec<u8>)>,
    has_pushed: bool,
}

/// Completes the jobs of a batch and appoints the next leader, also if running them panics.
struct Batch<'c> {
    committer: &'c Committer,
    jobs: Vec<Arc<Job>>,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        for job in &self.jobs {
            // This has an effect only after a panic: jobs that have an outcome keep it.
            job.set(State::Done(Err("ERR the server failed while it ran the command".to_owned())));
        }
        let mut queue = locked(&self.committer.queue);
        match queue.waiting.front() {
            Some(next) => next.set(State::Leading),
            None => queue.is_led = false,
        }
    }
}

impl Committer {
    /// Creates a committer of the database of `host`.
    ///
    /// # Errors
    /// Those of reading the tables.
    pub fn new(host: Arc<dyn Host>, durability: Durability) -> Result<Self> {
        let committer = Committer {
            host,
            durability,
            queue: Mutex::default(),
            tables: Mutex::default(),
            versions: Versions::new(),
            pushes: Pushes::default(),
        };
        committer.find_tables()?;
        Ok(committer)
    }

    /// Returns the tables of the databases, as they were found.
    pub fn tables(&self) -> Arc<Tables> {
        Arc::clone(&locked(&self.tables))
    }

    /// Returns the tables for commands in a database. If a table with other contents has its name, they are looked up
    /// again: it may have been dropped or renamed.
    ///
    /// # Errors
    /// Those of reading the tables.
    pub fn tables_for(&self, database: usize) -> Result<Arc<Tables>> {
        let tables = self.tables();
        if !tables[database].is_foreign() {
            return Ok(tables);
        }
        self.find_tables()?;
        Ok(self.tables())
    }

    /// Looks the tables up again: one may have been dropped.
    ///
    /// # Errors
    /// Those of reading the tables.
    pub fn find_tables(&self) -> Result<()> {
        let mut tables = locked(&self.tables);
        let snapshot = self.host.database().snapshot()?;
        let mut found = Tables::default();
        for (database, slot) in found.iter_mut().enumerate() {
            if let Some(table) = snapshot.table(&table_name(database))? {
                let layout = snapshot.get(&table, LAYOUT_KEY)?;
                *slot = Slot::of(table, layout.as_deref());
                warn_once(database, &tables[database], slot);
            }
        }
        *tables = Arc::new(found);
        Ok(())
    }

    /// Creates the table of a database unless it exists. A table with other contents is left as it is: the commands
    /// that use it fail.
    fn make_table(&self, database: usize) -> Result<()> {
        let mut tables = locked(&self.tables);
        if matches!(tables[database], Slot::Keys(_)) {
            return Ok(());
        }
        let name = table_name(database);
        let slot = self.host.database().write(|tx| {
            if let Some(table) = tx.table(&name)? {
                let layout = tx.get(&table, LAYOUT_KEY)?;
                return Ok(Slot::of(table, layout.as_deref()));
            }
            let table = tx.ensure_table(&name)?;
            tx.put(&table, LAYOUT_KEY, [LAYOUT])?;
            Ok(Slot::Keys(table))
        })?;
        warn_once(database, &tables[database], &slot);
        let mut new = Tables::clone(&tables);
        new[database] = slot;
        *tables = Arc::new(new);
        Ok(())
    }

    /// Runs a job and waits until it is committed.
    ///
    /// # Errors
    /// The reply if the commit fails.
    pub fn run(&self, job: &Arc<Job>, around: &Around) -> std::result::Result<Outcome, String> {
        {
            let mut queue = locked(&self.queue);
            queue.waiting.push_back(Arc::clone(job));
            if !queue.is_led {
                queue.is_led = true;
                job.set(State::Leading);
            }
        }
        loop {
            let mut state = locked(&job.state);
            match &*state {
                State::Done(_) => {
                    let done = std::mem::replace(&mut *state, State::Waiting);
                    let State::Done(outcome) = done else { unreachable!("it was matched a moment ago") };
                    return outcome;
                }
                State::Leading => {
                    drop(state);
                    self.lead(around);
                }
                State::Waiting => {
                    drop(job.changed.wait(state).unwrap_or_else(PoisonError::into_inner));
                }
            }
        }
    }

    /// Runs the first jobs of the queue, that of this thread among them.
    fn lead(&self, around: &Around) {
        let mut jobs = Vec::new();
        {
            let mut queue = locked(&self.queue);
            let mut bytes = 0;
            while jobs.len() < BATCH_JOBS
                && let Some(next) = queue.waiting.front()
            {
                bytes += next.size_bytes();
                if !jobs.is_empty() && bytes > BATCH_BYTES {
                    break;
                }
                jobs.extend(queue.waiting.pop_front());
            }
        }
        let batch = Batch { committer: self, jobs };
        match self.run_all(&batch.jobs, around) {
            Ok(outcomes) => {
                for (job, outcome) in batch.jobs.iter().zip(outcomes) {
                    job.set(State::Done(Ok(outcome)));
                }
            }
            // Nothing was written: a job that is too large or that conflicts should fail alone.
            Err(error) if batch.jobs.len() > 1 && is_without_effect(&error) => {
                for job in &batch.jobs {
                    let done = self.run_all(std::slice::from_ref(job), around);
                    let done = done.map(|mut outcomes| outcomes.pop().unwrap_or_default());
                    job.set(State::Done(done.map_err(|error| Fault::Database(error).to_string())));
                }
            }
            Err(error) => {
                let reply = Fault::Database(error).to_string();
                batch.jobs.iter().for_each(|job| job.set(State::Done(Err(reply.clone()))));
            }
        }
    }

    /// Runs jobs in one transaction and commits it.
    fn run_all(&self, jobs: &[Arc<Job>], around: &Around) -> Result<Vec<Outcome>> {
        match self.attempt(jobs, around) {
            Err(error) if error.kind() == ErrorKind::Missing => {
                // A table was dropped: the database is empty.
                self.find_tables()?;
                self.attempt(jobs, around)
            }
            done => done,
        }
    }

    fn attempt(&self, jobs: &[Arc<Job>], around: &Around) -> Result<Vec<Outcome>> {
        if let Some(error) = self.host.refusal() {
            return Err(error);
        }
        for job in jobs {
            self.make_table(job.database)?;
            for database in job.other_databases() {
                self.make_table(database)?;
            }
        }
        let (tables, db) = (self.tables(), self.host.database());
        // The database's default does not count: WATCH and new generations rely on what the transaction has read.
        let options = TransactionOptions { durability: self.durability, isolation: Isolation::Serializable };
        let mut effects = Effects::default();
        db.write_with(&options, |tx| {
            effects = Effects::default();
            let mut checked = [false; DATABASES];
            for job in jobs {
                let mut space = Space::new(Source::Transaction(tx), &tables, job.database, &self.versions);
                space.are_generations_checked = checked;
                run_job(job, &mut space, around, &mut effects).map_err(|fault| match fault {
                    Fault::Database(error) => error,
                    other => Error::invalid(other.to_string()),
                })?;
                checked = space.are_generations_checked;
            }
            Ok(())
        })?;
        // The commit stands: an error from here on must not make the jobs run again.
        let number = db.snapshot().map(|snapshot| snapshot.commit_number());
        number.and_then(|number| self.host.after_commit(number)).map_err(|error| {
            Error::new(ErrorKind::Indeterminate, format!("the write is stored, but {error}")).caused_by(error)
        })?;
        let figures = &around.figures;
        // Relaxed for all: these are counters, which order nothing.
        figures.commits.fetch_add(1, Ordering::Relaxed);
        figures.jobs.fetch_add(jobs.len() as u64, Ordering::Relaxed);
        let swept: usize = effects.outcomes.iter().map(|outcome| outcome.swept).sum();
        figures.expired.fetch_add(swept as u64, Ordering::Relaxed); // Relaxed: as above.
        for (channel, text) in &effects.messages {
            let (_, lost) = around.hub.publish(channel, text);
            figures.overflowed.fetch_add(lost, Ordering::Relaxed); // Relaxed: as above.
        }
        if effects.has_pushed {
            self.pushes.note();
        }
        Ok(effects.outcomes)
    }

    /// Removes expired keys of a database, up to a bound. Returns whether there may be more.
    ///
    /// # Errors
    /// The reply that a command would get.
    pub fn sweep(&self, database: usize, around: &Around) -> std::result::Result<bool, String> {
        let outcome = self.run(&Job::new(database, Protocol::Resp2, Work::Sweep), around)?;
        Ok(outcome.swept == SWEPT)
    }
}

/// Returns whether nothing was written by a transaction that failed with this error.
fn is_without_effect(error: &Error) -> bool {
    error.is_retryable() || matches!(error.kind(), ErrorKind::Full | ErrorKind::Invalid)
}

/// Logs that a database cannot be used, when that is found.
fn warn_once(database: usize, before: &Slot, found: &Slot) {
    if found.is_foreign() && !before.is_foreign() {
        tracing::warn!("clients of Redis cannot use database {database}: {}", refusal(database));
    }
}

/// Runs the commands of a job.
fn run_job(job: &Job, space: &mut Space<'_>, around: &Around, effects: &mut Effects) -> crate::fault::Done {
    let mut out = Out::within(&around.replying, job.protocol);
    let mut outcome = Outcome::default();
    match &job.work {
        Work::Waiting(commands) => {
            space.is_waiting = true;
            for (index, command) in &**commands {
                commands::run(*index, command, space, &mut out, around)?;
            }
            outcome.ran = commands.len();
            outcome.would_block = space.would_block;
        }
        Work::Commands(commands, from) => {
            for (index, command) in &commands[*from..] {
                space.would_block = false;
                commands::run(*index, command, space, &mut out, around)?;
                outcome.ran += 1;
                if out.len() > MOST_REPLIES_BYTES {
                    break;
                }
            }
            outcome.would_block = space.would_block;
        }
        Work::Unit(commands, watched) => {
            if watched::are_unchanged(watched, space)? {
                out.array(commands.len());
                for (index, command) in commands {
                    commands::run(*index, command, space, &mut out, around)?;
                }
            } else {
                out.null_array();
            }
            outcome.ran = commands.len();
        }
        Work::Sweep => outcome.swept = space.sweep(SWEPT)?,
    }
    outcome.replies = out;
    outcome.database = space.database;
    effects.outcomes.push(outcome);
    effects.messages.append(&mut space.messages);
    effects.has_pushed |= space.has_pushed;
    Ok(())
}

/// Returns whether a command of the unit can change keys. If none can, it runs in a snapshot.
pub fn has_writes(commands: &[(usize, Command)]) -> bool {
    commands.iter().any(|(index, _)| COMMANDS[*index].writes())
}
