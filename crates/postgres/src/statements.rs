//! All SQL that a database in use needs, prepared once for each connection.
//!
//! 1. A read of a range visits the primary key in order and stops early, so that the server locks, against phantoms,
//!    only what was read. The settings of a connection keep the planner from reading a small relation as a whole, which
//!    would lock all of it.
//! 2. A page of records ends after a number of records, or after a number of bytes that the server adds up before it
//!    sends any value.
//! 3. A commit is one statement. Its parts see the same state, and all of them happen or none. An unmet check divides
//!    by zero, which undoes the rest.

use futures_util::future::try_join_all;
use std::time::Duration;
use tokio_postgres::types::FromSql;
use tokio_postgres::{Client, Error, Row, Statement};

/// The time of the transaction in milliseconds since 1970.
const NOW_MS: &str = "floor(extract(epoch FROM now()) * 1000)::int8";

/// The prepared statements of a connection.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub get: Statement,
    /// Two records and the time: the first record of a table comes with the table's row of the catalog, and is read
    /// as of that time if the table has a TTL.
    pub get_two: Statement,
    /// Each record with its place among those that were asked for, which counts from 1, and whether its value is sent;
    /// at place 0, the time. Values are sent up to the one with which they have so many bytes, and the first two.
    pub get_many: Statement,
    /// Pages of records: forward and backward, without an end and with one.
    pub forward: Statement,
    pub forward_until: Statement,
    pub backward: Statement,
    pub backward_until: Statement,
    pub time: Statement,
    /// Fails if it is meant to be a transaction by itself and is not serializable.
    pub commit: Statement,
    pub delete_range: Statement,
    pub delete_range_until: Statement,
}

impl Prepared {
    /// Prepares all statements, in one round trip.
    pub async fn prepare(client: &Client, schema: &str) -> Result<Self, Error> {
        let schema = &quoted(schema);
        let texts = [
            format!("SELECT value FROM {schema}.records WHERE tbl = $1 AND key = $2"),
            format!(
                "SELECT (SELECT value FROM {schema}.records WHERE tbl = $1 AND key = $2),
                        (SELECT value FROM {schema}.records WHERE tbl = $3 AND key = $4),
                        {NOW_MS}"
            ),
            format!(
                "SELECT place, is_sent, CASE WHEN is_sent THEN value END FROM (
                     SELECT k.place, r.value,
                            k.place <= 2 OR coalesce(
                                sum(octet_length(r.value)) OVER (ORDER BY k.place ROWS UNBOUNDED PRECEDING)
                                    - octet_length(r.value), 0
                            ) < $3 AS is_sent
                     FROM unnest($1::int8[], $2::bytea[]) WITH ORDINALITY AS k(tbl, key, place)
                     JOIN {schema}.records r ON r.tbl = k.tbl AND r.key = k.key
                 ) AS sized
                 UNION ALL SELECT 0, true, int8send({NOW_MS})"
            ),
            page(schema, "key >= $2", "key"),
            page(schema, "key >= $2 AND key < $5", "key"),
            page(schema, "key >= $2", "key DESC"),
            page(schema, "key >= $2 AND key < $5", "key DESC"),
            format!("SELECT {NOW_MS}"),
            commit(schema),
            format!("DELETE FROM {schema}.records WHERE tbl = $1 AND key >= $2"),
            format!("DELETE FROM {schema}.records WHERE tbl = $1 AND key >= $2 AND key < $3"),
        ];
        let prepared = try_join_all(texts.iter().map(|text| client.prepare(text))).await?;
        let mut next = prepared.into_iter();
        let mut next = || next.next().expect("one for each text");
        // The fields are in the order of the texts.
        Ok(Prepared {
            get: next(),
            get_two: next(),
            get_many: next(),
            forward: next(),
            forward_until: next(),
            backward: next(),
            backward_until: next(),
            time: next(),
            commit: next(),
            delete_range: next(),
            delete_range_until: next(),
        })
    }
}

/// Returns the name of a schema as SQL has it. Without quotes, a word of the language such as `user` is no name.
pub(crate) fn quoted(schema: &str) -> String {
    // `Options::check` lets no quote into a name.
    format!("\"{schema}\"")
}

/// Returns the statement that reads a page: $1 table, $2 start, $3 most records, $4 most bytes, $5 end.
fn page(schema: &str, within: &str, order: &str) -> String {
    format!(
        "SELECT key, value FROM (
             SELECT key, value,
                    sum(octet_length(value)) OVER (ORDER BY {order} ROWS UNBOUNDED PRECEDING)
                        - octet_length(value) AS bytes_before
             FROM (
                 SELECT key, value FROM {schema}.records
                 WHERE tbl = $1 AND {within} ORDER BY {order} LIMIT $3
             ) AS counted
         ) AS sized WHERE bytes_before < $4"
    )
}

/// Returns the statement of a commit: $1-$3 checks, $4 token, $5-$8 puts, $9-$10 deletes, $11 whether it is meant to
/// be a transaction by itself. It then fails if it is not serializable: the name of another isolation is no number.
fn commit(schema: &str) -> String {
    format!(
        "WITH unmet AS (
             SELECT count(*) AS count FROM unnest($1::int8[], $2::bytea[], $3::bytea[]) AS c(tbl, key, value)
             WHERE NOT EXISTS (
                 SELECT FROM {schema}.records r WHERE r.tbl = c.tbl AND r.key = c.key AND r.value = c.value
             )
         ), token AS (
             INSERT INTO {schema}.commits (token, committed) VALUES ($4, true)
         ), puts AS (
             INSERT INTO {schema}.records (tbl, key, value)
             SELECT tbl, key, CASE WHEN dated THEN int8send({NOW_MS}) || value ELSE value END
             FROM unnest($5::int8[], $6::bytea[], $7::bytea[], $8::bool[]) AS p(tbl, key, value, dated)
             ON CONFLICT (tbl, key) DO UPDATE SET value = EXCLUDED.value
         ), deletes AS (
             DELETE FROM {schema}.records r USING unnest($9::int8[], $10::bytea[]) AS d(tbl, key)
             WHERE r.tbl = d.tbl AND r.key = d.key
         )
         SELECT 1 / (CASE WHEN count = 0 THEN 1 ELSE 0 END),
                CASE WHEN $11::bool AND current_setting('transaction_isolation') <> 'serializable'
                    THEN current_setting('transaction_isolation')::int8
                END
         FROM unmet"
    )
}

/// Returns a column of a row that the server sent.
///
/// # Errors
/// `Foreign` if the server sent another type, or nothing: the relations are not those that `migrate` made.
pub(crate) fn column<'r, T: FromSql<'r>>(row: &'r Row, place: usize) -> base::Result<T> {
    row.try_get(place).map_err(|error| {
        let message = "the relations of the schema in PostgreSQL have other columns than Pando's: another \
                       program has changed them";
        base::Error::new(base::ErrorKind::Foreign, message).caused_by(error)
    })
}

/// Returns the settings of a connection.
pub(crate) fn settings(request_timeout: Duration, idle_timeout: Duration) -> String {
    format!(
        "SET default_transaction_isolation = 'serializable';
         SET enable_seqscan = off; SET enable_bitmapscan = off;
         SET enable_hashjoin = off; SET enable_mergejoin = off;
         SET plan_cache_mode = force_generic_plan;
         SET statement_timeout = {};
         SET idle_in_transaction_session_timeout = {}",
        request_timeout.as_millis(),
        idle_timeout.as_millis()
    )
}
