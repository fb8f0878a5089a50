//! A session: one transaction of the server, from its first read to its commit.
//!
//! 1. A session takes a connection with its first request. Its `BEGIN` travels with that request.
//! 2. The first request may be repeated ([`Pool::run`]): nothing was read before that could differ now.
//! 3. After an error the transaction is over: each later call returns the same error.
//! 4. A commit sends everything at once. If the response is lost, or leaves a doubt, `tokens` finds out what happened.

use crate::connection::{Alone, Driven};
use crate::failure::Trouble;
use crate::pool::{Lease, Pool};
use crate::statements::{Prepared, column};
use crate::tokens;
use base::{Error, Result, Span, TableId};
use futures_util::future::{join, try_join_all};
use pando::remote::{Commit, Failure, Fault, Mode, Most, Order, Page, Session, Token};
use std::sync::Arc;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

/// The largest request of a commit, in bytes, after which its connection is kept. A connection has buffers as large as
/// the largest request that it has sent, so an idle one would hold memory that no transaction has reserved. To open
/// another connection takes a few milliseconds, and so does a commit of this size.
const MAX_KEPT_BYTES: usize = 1 << 20;
/// An upper bound of the bytes of a request for each put or delete, beside its key and its value: the id of the table,
/// flags and lengths.
const PER_WRITE_BYTES: usize = 32;

type Params<'a> = [&'a (dyn ToSql + Sync)];

#[derive(Debug)]
pub(crate) struct PostgresSession {
    pool: Arc<Pool>,
    mode: Mode,
    state: State,
    time_ms: Option<u64>,
}

#[derive(Debug)]
enum State {
    /// No request was made yet.
    Fresh,
    /// A transaction is open on this connection.
    Open(Box<Lease>),
    /// It has failed.
    Failed(Error),
    /// It was committed.
    Ended,
}

/// Returns the statement that begins a transaction.
fn begin(mode: Mode) -> &'static str {
    match mode {
        Mode::Snapshot | Mode::Single | Mode::Record => "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY",
        Mode::Write => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        Mode::WriteOverSnapshot => "BEGIN ISOLATION LEVEL REPEATABLE READ",
    }
}

/// Returns the isolation of a session that is one statement, without a transaction around it.
fn alone(mode: Mode) -> Option<Alone> {
    match mode {
        Mode::Single => Some(Alone::Serializable),
        Mode::Record => Some(Alone::Snapshot),
        Mode::Snapshot | Mode::Write | Mode::WriteOverSnapshot => None,
    }
}

impl PostgresSession {
    pub fn new(pool: &Arc<Pool>, mode: Mode) -> Self {
        PostgresSession { pool: Arc::clone(pool), mode, state: State::Fresh, time_ms: None }
    }

    /// Runs a read in the transaction, which it begins if necessary.
    fn read<T>(&mut self, work: impl AsyncFn(&Client, &Prepared) -> Driven<T>) -> Result<T> {
        let done = match &mut self.state {
            State::Fresh => return self.first_read(&work),
            State::Open(lease) => lease.connection().run(&work),
            State::Failed(error) => return Err(Fault::duplicate(error)),
            State::Ended => return Err(Error::invalid("the transaction has ended")),
        };
        done.map_err(|trouble| self.fail(Error::from(trouble)))
    }

    fn first_read<T>(&mut self, work: &impl AsyncFn(&Client, &Prepared) -> Driven<T>) -> Result<T> {
        let (alone, begin) = (alone(self.mode), begin(self.mode));
        let request = async |client: &Client, prepared: &Prepared| {
            if alone.is_some() {
                return work(client, prepared).await;
            }
            let (begun, done) = join(client.batch_execute(begin), work(client, prepared)).await;
            begun?;
            done
        };
        let (lease, done) = self.pool.run(alone, &request)?;
        match done {
            Ok(found) if alone.is_some() => {
                lease.give_back();
                Ok(found)
            }
            Ok(found) => {
                self.state = State::Open(Box::new(lease));
                Ok(found)
            }
            Err(trouble) => {
                self.state = State::Open(Box::new(lease));
                Err(self.fail(Error::from(trouble)))
            }
        }
    }

    /// Notes the time of the transaction when it arrives first, and returns it.
    fn note_time(&mut self, time_ms: i64) -> u64 {
        *self.time_ms.get_or_insert(u64::try_from(time_ms).unwrap_or(0))
    }

    /// Ends the transaction with an error, and returns that.
    fn fail(&mut self, error: Error) -> Error {
        let failed = State::Failed(Fault::duplicate(&error));
        if let State::Open(lease) = std::mem::replace(&mut self.state, failed) {
            end(*lease, "ROLLBACK");
        }
        error
    }

    /// Sends a commit that writes something, on a connection with or without an open transaction.
    fn send(
        &self,
        lease: &mut Lease,
        is_open: bool,
        commit: &Commit<'_>,
        token: Token,
    ) -> std::result::Result<(), Trouble> {
        if !is_open && commit.ranges.is_empty() {
            return lease
                .connection()
                .commit_alone(async |client, prepared| write(client, prepared, commit, token, true).await);
        }
        let begin = begin(self.mode);
        lease.connection().run(async |client, prepared| {
            if !is_open {
                // Nothing is sent before this has worked: without a transaction, each statement would commit by itself.
                client.batch_execute(begin).await?;
            }
            // The futures are polled, and so the requests are sent, in this order.
            let writes =
                join(delete_ranges(client, prepared, commit), write(client, prepared, commit, token, false));
            let ((deleted, written), committed) = join(writes, client.batch_execute("COMMIT")).await;
            deleted.and(written).and(committed)
        })
    }

    /// Commits a transaction that wrote nothing: its reads are certain to fit a serial order only then.
    fn commit_reads(&mut self) -> std::result::Result<(), Failure> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Fresh => Ok(()),
            State::Open(mut lease) => {
                let done = lease.connection().run_bare(async |client| client.batch_execute("COMMIT").await);
                lease.give_back();
                done.map_err(|trouble| match trouble {
                    Trouble::Lost(error) => Failure::NotCommitted(error),
                    server @ Trouble::Server(_) => Failure::Refused(Error::from(server)),
                })
            }
            State::Failed(error) => Err(Failure::Refused(error)),
            State::Ended => Err(Failure::Refused(Error::invalid("the transaction has ended"))),
        }
    }

    /// Commits with writes. `was_used`: the connection came from the pool for this commit.
    fn commit_on(
        &mut self,
        mut lease: Lease,
        is_open: bool,
        was_used: bool,
        commit: &Commit<'_>,
    ) -> std::result::Result<(), Failure> {
        let token = tokens::new();
        let trouble = match self.send(&mut lease, is_open, commit, token) {
            Ok(()) => {
                let schema = &self.pool.options().schema;
                let is_due = self.pool.count_commit() % tokens::COMMITS_BETWEEN_DELETES
                    == tokens::COMMITS_BETWEEN_DELETES - 1;
                // The commit has happened, so a failure of this is no failure of the commit.
                if !is_due || tokens::delete_old(lease.connection(), schema).is_ok() {
                    give_back_after(lease, commit);
                }
                return Ok(());
            }
            Err(trouble) => trouble,
        };
        if !trouble.is_lost() && !trouble.is_doubtful() {
            // `COMMIT` ended the failed transaction, and one statement by itself left none.
            give_back_after(lease, commit);
            return Err(match trouble.is_unmet() {
                true => Failure::Unmet,
                false => Failure::Refused(Error::from(trouble)),
            });
        }
        drop(lease);
        let is_lost = trouble.is_lost();
        if is_lost {
            self.pool.forget_idle();
        }
        match tokens::outcome(&self.pool, token) {
            Ok(true) => Ok(()),
            Ok(false) if was_used && is_lost => {
                // The connection had ended while it was idle. The same commit on a new one has a new token.
                let (lease, _) = self.pool.take(None).map_err(Failure::NotCommitted)?;
                self.commit_on(lease, false, false, commit)
            }
            Ok(false) if is_lost => Err(Failure::NotCommitted(Error::from(trouble))),
            Ok(false) => Err(Failure::Refused(Error::from(trouble))),
            Err(unknown) => Err(Failure::Unknown(token, unknown)),
        }
    }
}

impl Session for PostgresSession {
    fn get_many(&mut self, keys: &[(TableId, &[u8])], most_bytes: usize) -> Result<Vec<Option<Vec<u8>>>> {
        if let &[(table, key)] = keys {
            let table = i64::from(table.0);
            let found =
                self.read(async |client, prepared| client.query_opt(&prepared.get, &[&table, &key]).await)?;
            return Ok(vec![found.map(|row| column(&row, 0)).transpose()?]);
        }
        if let &[(first_table, first), (second_table, second)] = keys {
            let (one, two) = (i64::from(first_table.0), i64::from(second_table.0));
            let row = self.read(async |client, prepared| {
                client.query_one(&prepared.get_two, &[&one, &first, &two, &second]).await
            })?;
            self.note_time(column(&row, 2)?);
            return Ok(vec![column(&row, 0)?, column(&row, 1)?]);
        }
        let tables: Vec<_> = keys.iter().map(|&(table, _)| i64::from(table.0)).collect();
        let asked: Vec<_> = keys.iter().map(|&(_, key)| key).collect();
        let most = i64::try_from(most_bytes).unwrap_or(i64::MAX);
        let rows = self.read(async |client, prepared| {
            client.query(&prepared.get_many, &[&tables, &asked, &most]).await
        })?;
        let (mut values, mut end) = (vec![None; keys.len()], keys.len());
        for row in rows {
            let place: i64 = column(&row, 0)?;
            if place == 0 {
                let time_ms = <[u8; 8]>::try_from(column::<&[u8]>(&row, 2)?);
                self.note_time(i64::from_be_bytes(time_ms.map_err(|_| not_asked_for())?));
                continue;
            }
            let place = usize::try_from(place - 1).map_err(|_| not_asked_for())?;
            let value = values.get_mut(place).ok_or_else(not_asked_for)?;
            match column(&row, 1)? {
                true => *value = Some(column(&row, 2)?),
                false => end = end.min(place),
            }
        }
        values.truncate(end);
        Ok(values)
    }

    fn fetch(&mut self, table: TableId, span: &Span, order: Order, most: Most) -> Result<Page> {
        let number = |most: usize| i64::try_from(most).unwrap_or(i64::MAX);
        let (table, most_records, most_bytes) =
            (i64::from(table.0), number(most.records), number(most.bytes));
        let (start, end) = (span.start(), span.end());
        let rows = self.read(async |client, prepared| {
            let without: &Params<'_> = &[&table, &start, &most_records, &most_bytes];
            let with: &Params<'_> = &[&table, &start, &most_records, &most_bytes, &end];
            match (order, end) {
                (Order::Forward, None) => client.query(&prepared.forward, without).await,
                (Order::Forward, Some(_)) => client.query(&prepared.forward_until, with).await,
                (Order::Backward, None) => client.query(&prepared.backward, without).await,
                (Order::Backward, Some(_)) => client.query(&prepared.backward_until, with).await,
            }
        })?;
        let record = |row: &Row| Ok((column(row, 0)?, column(row, 1)?));
        let records = rows.iter().map(record).collect::<Result<Vec<(Vec<u8>, Vec<u8>)>>>()?;
        let bytes: usize = records.iter().map(|(_, value)| value.len()).sum();
        let is_last = records.len() < most.records && bytes < most.bytes;
        Ok(Page { records, is_last })
    }

    fn time_ms(&mut self) -> Result<u64> {
        if let Some(time_ms) = self.time_ms {
            return Ok(time_ms);
        }
        let row = self.read(async |client, prepared| client.query_one(&prepared.time, &[]).await)?;
        Ok(self.note_time(column(&row, 0)?))
    }

    fn commit(&mut self, commit: &Commit<'_>) -> std::result::Result<(), Failure> {
        if commit.is_empty() {
            return self.commit_reads();
        }
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Fresh => {
                let alone = Some(Alone::Serializable).filter(|_| commit.ranges.is_empty());
                let (lease, was_used) = self.pool.take(alone).map_err(Failure::Refused)?;
                self.commit_on(lease, false, was_used, commit)
            }
            State::Open(lease) => self.commit_on(*lease, true, false, commit),
            State::Failed(error) => Err(Failure::Refused(error)),
            State::Ended => Err(Failure::Refused(Error::invalid("the transaction has ended"))),
        }
    }
}

impl Drop for PostgresSession {
    fn drop(&mut self) {
        if let State::Open(lease) = std::mem::replace(&mut self.state, State::Ended) {
            // What a snapshot read counts for the server only if it commits: a rollback would let another transaction
            // commit that does not fit what was read.
            end(*lease, if self.mode == Mode::Snapshot { "COMMIT" } else { "ROLLBACK" });
        }
    }
}

#[cold]
fn not_asked_for() -> Error {
    Error::corruption("PostgreSQL returned a value that was not asked for")
}

/// Ends a transaction, and gives the connection back if that works.
fn end(mut lease: Lease, how: &str) {
    if !lease.connection().has_ended()
        && lease.connection().run_bare(async |client| client.batch_execute(how).await).is_ok()
    {
        lease.give_back();
    }
}

/// Gives the connection back after a commit, or closes it if its buffers are large now.
fn give_back_after(lease: Lease, commit: &Commit<'_>) {
    if request_bytes(commit) <= MAX_KEPT_BYTES {
        lease.give_back();
    }
}

/// Returns about how many bytes the request of a commit has. O(writes).
fn request_bytes(commit: &Commit<'_>) -> usize {
    let ranges = commit.ranges.iter().map(|(_, start, end)| start.len() + end.map_or(0, <[u8]>::len));
    let puts = commit.puts.iter().map(|put| put.key.len() + put.value.len());
    let deletes = commit.deletes.iter().map(|(_, key)| key.len());
    ranges.chain(puts).chain(deletes).map(|bytes| bytes + PER_WRITE_BYTES).sum()
}

async fn delete_ranges(client: &Client, prepared: &Prepared, commit: &Commit<'_>) -> Driven<()> {
    let deletes = commit.ranges.iter().map(|&(table, start, end)| async move {
        let table = i64::from(table.0);
        match end {
            Some(end) => client.execute(&prepared.delete_range_until, &[&table, &start, &end]).await,
            None => client.execute(&prepared.delete_range, &[&table, &start]).await,
        }
    });
    try_join_all(deletes).await.map(drop)
}

/// Writes what does not depend on ranges. `is_alone`: outside a transaction, where it must be serializable.
async fn write(
    client: &Client,
    prepared: &Prepared,
    commit: &Commit<'_>,
    token: Token,
    is_alone: bool,
) -> Driven<()> {
    let number = |table: TableId| i64::from(table.0);
    let check_tables: Vec<_> = commit.checks.iter().map(|&(table, ..)| number(table)).collect();
    let check_keys: Vec<_> = commit.checks.iter().map(|&(_, key, _)| key).collect();
    let check_values: Vec<_> = commit.checks.iter().map(|&(.., value)| value).collect();
    let put_tables: Vec<_> = commit.puts.iter().map(|put| number(put.table)).collect();
    let put_keys: Vec<_> = commit.puts.iter().map(|put| put.key).collect();
    let put_values: Vec<_> = commit.puts.iter().map(|put| put.value).collect();
    let put_dated: Vec<_> = commit.puts.iter().map(|put| put.is_dated).collect();
    let delete_tables: Vec<_> = commit.deletes.iter().map(|&(table, _)| number(table)).collect();
    let delete_keys: Vec<_> = commit.deletes.iter().map(|&(_, key)| key).collect();
    let token = &token.0[..];
    let params: &Params<'_> = &[
        &check_tables,
        &check_keys,
        &check_values,
        &token,
        &put_tables,
        &put_keys,
        &put_values,
        &put_dated,
        &delete_tables,
        &delete_keys,
        &is_alone,
    ];
    client.query_one(&prepared.commit, params).await.map(drop)
}
