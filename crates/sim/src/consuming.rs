//! A named consumer that follows the changes of every session. It applies them to a state of its own, which must equal
//! the model's after each commit. What it has acknowledged survives kills and crashes, and nothing else is missing or
//! delivered again.

use crate::beside::Trouble;
use crate::model::{BY_KEY_MS, Bytes, Change, State};
use crate::workload::TABLES;
use base::ErrorKind;
use base::env::Random;
use io::sim::SimDisk;
use std::sync::Arc;
use store::Store;
use store::changes::{Consumer, Feed, Operation, TableChange, TableInfo};

/// The name of the consumer.
pub const NAME: &str = "explorer";

/// Follows one session after the other, in some runs only.
pub struct Consume {
    random: Random,
    is_on: bool,
    open: Option<Open>,
    /// The last commit that was acknowledged; `None` before the first.
    acknowledged: Option<u64>,
    /// The last commit that it tried to acknowledge. An acknowledgement that failed may have been written nevertheless.
    attempted: Option<u64>,
    /// The number of commits that were delivered to it.
    pub given: u64,
}

struct Open {
    consumer: Consumer,
    feed: Feed,
    state: State,
    last: u64,
}

impl Consume {
    /// Creates a consumer for the run of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::seeded(seed ^ 0x636f_6e73_756d_6572);
        let is_on = random.chance(2, 3);
        Consume { random, is_on, open: None, acknowledged: None, attempted: None, given: 0 }
    }

    /// Takes one turn: does nothing, opens, reads, acknowledges, or closes.
    ///
    /// # Errors
    /// A description of what is wrong.
    pub fn turn(
        &mut self,
        disk: &SimDisk,
        store: &Arc<Store>,
        state_at: impl Fn(u64) -> Option<State>,
    ) -> Result<(), String> {
        if !self.is_on {
            return Ok(());
        }
        let turned = match self.open.take() {
            None if self.random.chance(1, 6) => self.begin(store, state_at),
            None => Ok(()),
            Some(_) if self.random.chance(1, 80) => Ok(()),
            Some(open) => self.read(open, store, state_at),
        };
        // After an injected fault a consumer may fail, as every user of the disk may, and begins again.
        turned.or_else(|wrong| match wrong {
            Trouble::Engine(error) if disk.faults_hit() > 0 && error.kind() != ErrorKind::Corruption => {
                Ok(())
            }
            Trouble::Engine(error) => Err(format!("a consumer: {error:?}")),
            Trouble::Wrong(wrong) => Err(wrong),
        })
    }

    fn begin(&mut self, store: &Arc<Store>, state_at: impl Fn(u64) -> Option<State>) -> Result<(), Trouble> {
        let consumer = store.consumer(NAME)?;
        let position = consumer.position();
        let places = [self.acknowledged, self.attempted];
        if self.acknowledged.is_some() && !places.contains(&Some(position)) {
            let message = format!(
                "a consumer is at commit {position} after it had acknowledged {:?}",
                self.acknowledged
            );
            return Err(Trouble::Wrong(message));
        }
        self.acknowledged = Some(position);
        let state = state_at(position).ok_or_else(|| {
            Trouble::Wrong(format!("a consumer is at commit {position}, which was not made"))
        })?;
        let feed = consumer.feed()?;
        self.open = Some(Open { consumer, feed, state, last: position });
        Ok(())
    }

    fn read(
        &mut self,
        mut open: Open,
        store: &Arc<Store>,
        state_at: impl Fn(u64) -> Option<State>,
    ) -> Result<(), Trouble> {
        for _ in 0..self.random.below(4) {
            if !open.feed.advance()? {
                break;
            }
            let change = open.feed.change();
            let (number, visible) = (change.commit_number(), store.snapshot()?.ts().0);
            if number != open.last + 1 || number > visible {
                let last = open.last;
                return Err(Trouble::Wrong(format!(
                    "commit {number} was given after {last}, {visible} are visible"
                )));
            }
            let mut operations = change.operations()?;
            let mut repeated = repeat_tables(change.tables())?;
            while let Some(operation) = operations.next()? {
                repeated.extend(repeat(operation)?);
            }
            repeated.iter().try_for_each(|change| open.state.change(change)).map_err(Trouble::Wrong)?;
            let expected = state_at(number)
                .ok_or_else(|| Trouble::Wrong(format!("commit {number} was given, and not made")))?;
            if let Some(table) = TABLES.into_iter().find(|table| !is_same(&open.state, &expected, table)) {
                return Err(Trouble::Wrong(format!("a consumer has another {table} after commit {number}")));
            }
            // It takes over what changes do not contain, such as the entries that a TTL has removed.
            open.state = expected;
            open.last = number;
            self.given += 1;
        }
        if self.random.chance(1, 5) {
            self.attempted = Some(open.last);
            open.consumer.acknowledge(open.last)?;
            self.acknowledged = Some(open.last);
        }
        self.open = Some(open);
        Ok(())
    }

    /// Ends with the session.
    pub fn give_up(&mut self) {
        self.open = None;
    }
}

/// Returns whether two states agree about a table. Entries that expire depend on times, and are checked elsewhere.
fn is_same(one: &State, other: &State, table: &'static str) -> bool {
    if one.has(table) != other.has(table) || one.layout(table) != other.layout(table) {
        return false;
    }
    let all = |state: &State| {
        let rows = state.range(table, b"", &[0xff; 64], 0);
        rows.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect::<Vec<_>>()
    };
    one.is_dated(table) || all(one) == all(other)
}

/// Returns the model's name for a table.
fn known(name: &str) -> Result<&'static str, Trouble> {
    let found = TABLES.into_iter().find(|table| *table == name);
    found.ok_or_else(|| Trouble::Wrong(format!("a consumer was shown table {name}")))
}

/// Temporary names of tables, because two tables may swap their names in one commit.
const ON_THE_WAY: [&str; 4] = ["~0", "~1", "~2", "~3"];

/// Returns the changes that a commit made to tables as wholes.
fn repeat_tables(changes: &[TableChange]) -> Result<Vec<Change>, Trouble> {
    let ttl_ms = |table: &TableInfo| match table.has_ttl_by_key() {
        true => Some(BY_KEY_MS),
        false => table.ttl().map(|ttl| ttl.as_millis() as u64),
    };
    let (mut first, mut then) = (Vec::new(), Vec::new());
    for (at, change) in changes.iter().enumerate() {
        let table = match change {
            TableChange::Created(table) => {
                let life = table.is_dated().then(|| ttl_ms(table).unwrap_or(u64::MAX));
                let (layout, compression) = (table.layout(), table.compression());
                then.push(Change::Create(known(table.name())?, table.id().0, layout, compression, life));
                continue;
            }
            TableChange::Dropped { name, .. } => {
                first.push(Change::Drop(known(name)?));
                continue;
            }
            TableChange::Renamed { from, table } => {
                let way = ON_THE_WAY[at % ON_THE_WAY.len()];
                first.push(Change::Rename(known(from)?, way));
                then.push(Change::Rename(way, known(table.name())?));
                table
            }
            TableChange::Altered(table) => table,
        };
        let name = known(table.name())?;
        // A TTL by key never changes.
        if table.is_dated() && !table.has_ttl_by_key() {
            then.push(Change::SetTtl(name, ttl_ms(table), 0));
        }
        then.push(Change::SetLayout(name, table.layout()));
    }
    first.append(&mut then);
    Ok(first)
}

/// Returns the change of a written operation; `None` if it concerns a table as a whole.
fn repeat(operation: Operation<'_>) -> Result<Option<Change>, Trouble> {
    let bytes = |bytes: &[u8]| Bytes::from(bytes);
    Ok(Some(match operation {
        Operation::Table(_) => return Ok(None),
        Operation::Put { table, key, value } => {
            let date_ms = value.date_ms().unwrap_or(0);
            Change::Put(known(table.name())?, bytes(key), value.to_vec()?.into(), date_ms)
        }
        Operation::Delete { table, key } => Change::Delete(known(table.name())?, bytes(key)),
        Operation::DeleteRange { table, start, end } => {
            let end = end.map_or_else(|| bytes(&[0xff; 64]), bytes);
            Change::DeleteRange(known(table.name())?, bytes(start), end)
        }
    }))
}
