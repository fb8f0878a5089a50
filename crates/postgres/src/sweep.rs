//! Entries that have expired: deleted page by page when a program asks for it.
//!
//! The statement is no serializable transaction. It deletes only what no other transaction sees, so its order among
//! them does not matter, and what it reads gives them no conflicts. Under READ COMMITTED the server looks again at a
//! record that another transaction has just replaced, finds the new date, and keeps it.

use crate::pool::Pool;
use crate::statements::{Prepared, column, quoted};
use base::{Error, Result, TableId};
use futures_util::future::join;
use pando::remote::Swept;
use std::sync::Arc;
use tokio_postgres::Client;

/// Deletes the records with a date before `oldest_ms` among the first `most` from `start` on.
pub(crate) fn delete_older(
    pool: &Arc<Pool>,
    table: TableId,
    oldest_ms: u64,
    start: &[u8],
    most: usize,
) -> Result<Swept> {
    let schema = quoted(&pool.options().schema);
    let delete = format!(
        "WITH page AS (
             SELECT key FROM {schema}.records WHERE tbl = $1 AND key >= $2 ORDER BY key LIMIT $3
         ), gone AS (
             DELETE FROM {schema}.records r USING page
             WHERE r.tbl = $1 AND r.key = page.key AND substring(r.value FROM 1 FOR 8) < $4
             RETURNING 1
         )
         SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM page),
                (SELECT key FROM page ORDER BY key DESC LIMIT 1)"
    );
    let (number, limit) = (i64::from(table.0), i64::try_from(most).unwrap_or(i64::MAX));
    let oldest = &oldest_ms.to_be_bytes()[..];
    let (lease, done) = pool.run(None, &async |client: &Client, _: &Prepared| {
        client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        let (row, committed) = join(
            client.query_one(&delete, &[&number, &start, &limit, &oldest]),
            client.batch_execute("COMMIT"),
        )
        .await;
        committed.and(row)
    })?;
    // `COMMIT` has ended a failed transaction, too; a connection that is lost is not given back.
    let row = done.map_err(Error::from)?;
    lease.give_back();
    let (deleted, seen): (i64, i64) = (column(&row, 0)?, column(&row, 1)?);
    let last = if seen < limit { None } else { column(&row, 2)? };
    Ok(Swept { deleted: u64::try_from(deleted).unwrap_or(0), last })
}
