//! Long values of a remote store, which are gathered in memory: a store takes each value as a whole.

use crate::data::engine::{Engine, Remote};
use crate::data::held::on_table;
use crate::data::open::Open;
use crate::limits::handoff::hand_off;
use crate::limits::receive::Incoming;
use crate::limits::room::Room;
use crate::send::long_value::{LongValues, Put};
use crate::wire::problem::Answer;
use bytes::Bytes;
use pando::Table;
use pando::remote::{RemoteDatabase, RemoteTransaction};
use std::sync::Arc;

impl LongValues for Remote {
    fn longest_bytes(db: &RemoteDatabase) -> u64 {
        db.limits().max_value_bytes as u64
    }

    async fn put_long(
        room: &Room,
        open: Arc<Open<Remote>>,
        put: Put,
        begin: Bytes,
        rest: Incoming,
    ) -> Answer<Option<u64>> {
        let permit = room.stream_permit().await?;
        let (value, counted) = room.reception.gather(begin, rest).await?;
        hand_off(move || {
            // Both are kept until the value is committed, even if the client disconnects.
            let (_permit, _counted) = (permit, counted);
            let Put { table, key, life, durability, conditions } = put;
            let set = |tx: &mut RemoteTransaction, table: &Table| {
                conditions.check_in(tx, table, &key)?;
                match life.ttl::<Remote>(tx, table, &key)? {
                    Some(ttl) => Remote::put_with_ttl(tx, table, &key, &value, ttl)?,
                    None => tx.put(table, &key, &value)?,
                }
                Ok(())
            };
            // Another server may have dropped or renamed the table.
            let write = |table: &Table| Remote::write(&open.db, durability, |tx| set(tx, table));
            let ((), number) = on_table(&open, table, write)?;
            Ok(number)
        })
        .await
    }
}
