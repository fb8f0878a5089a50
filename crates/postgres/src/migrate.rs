//! The relations that hold a database, made and changed in versions.
//!
//! `meta` has one row: the version, and the id of the database. A migration and its version are committed together, and
//! a lock keeps two programs from migrating at once.

use crate::connection::{Connection, Driven};
use crate::statements::quoted;
use base::env::Random;
use base::{Error, ErrorKind, Result};
use tokio_postgres::Client;

/// The migrations; the first one makes version 1. One that was released is never changed.
const MIGRATIONS: [fn(&str) -> String; 1] = [first];

/// Makes the three relations. A key's place in the primary key limits its length, and a record that is replaced finds
/// room in its page, so that the index does not change.
fn first(schema: &str) -> String {
    let schema = quoted(schema);
    let id = Random::from_entropy().next_u64().cast_signed();
    format!(
        "CREATE TABLE {schema}.meta (version int4 NOT NULL, database int8 NOT NULL);
         INSERT INTO {schema}.meta VALUES (0, {id});
         CREATE TABLE {schema}.records (
             tbl int8 NOT NULL, key bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (tbl, key)
         ) WITH (fillfactor = 90);
         CREATE TABLE {schema}.commits (
             token bytea PRIMARY KEY, committed bool NOT NULL, made timestamptz NOT NULL DEFAULT now()
         );
         CREATE INDEX commits_made ON {schema}.commits (made)"
    )
}

/// Brings the database to the newest version, and returns its id. If there is none, it is made, or `Missing` if it must
/// not be.
pub(crate) fn migrate(connection: &mut Connection, schema: &str, create: bool) -> Result<u64> {
    let newest = MIGRATIONS.len() as i32;
    match connection.run_bare(async |client| read_meta(client, schema).await)? {
        Some((version, id)) => {
            check_version(version, schema)?;
            if version == newest {
                return Ok(id);
            }
        }
        None if !create => {
            let message = format!("PostgreSQL has no database of Pando in the schema {schema:?}");
            return Err(Error::new(ErrorKind::Missing, message));
        }
        None => {}
    }
    let (version, id) = connection.run_bare(async |client| {
        // Under this isolation a statement sees what was committed before the lock was taken.
        client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        client.batch_execute(&format!("SELECT pg_advisory_xact_lock(hashtext('pando {schema}'))")).await?;
        let before = read_meta(client, schema).await?.map_or(0, |(version, _)| version);
        if before == 0 {
            client.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS {}", quoted(schema))).await?;
        }
        for migration in MIGRATIONS.iter().skip(usize::try_from(before).unwrap_or(0)) {
            client.batch_execute(&migration(schema)).await?;
        }
        if before < newest {
            let update = format!("UPDATE {}.meta SET version = {newest}", quoted(schema));
            client.batch_execute(&update).await?;
        }
        client.batch_execute("COMMIT").await?;
        Ok(read_meta(client, schema).await?.unwrap_or((0, 0)))
    })?;
    check_version(version, schema)?;
    Ok(id)
}

/// Returns the version and the id of the database; `None` if the schema holds none.
async fn read_meta(client: &Client, schema: &str) -> Driven<Option<(i32, u64)>> {
    // Not `to_regclass`: the server may remember, from before the lock, that there is no such schema.
    let exists = format!(
        "SELECT EXISTS (
             SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname = '{schema}' AND c.relname = 'meta'
         )"
    );
    if !client.query_one(&exists, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    // The server converts the types, or says that it cannot: the relation may be another program's.
    let select = format!("SELECT version::int4, database::int8 FROM {}.meta", quoted(schema));
    let Some(row) = client.query_opt(&select, &[]).await? else { return Ok(None) };
    Ok(Some((row.try_get(0)?, row.try_get::<_, i64>(1)?.cast_unsigned())))
}

/// Returns the schemas that have all relations of a database, in order.
pub(crate) async fn schemas(client: &Client) -> Driven<Vec<String>> {
    let select = "SELECT n.nspname::text FROM pg_namespace n
                  JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r'
                  WHERE c.relname IN ('meta', 'records', 'commits')
                  GROUP BY n.nspname HAVING count(*) = 3 ORDER BY n.nspname";
    client.query(select, &[]).await?.iter().map(|row| row.try_get(0)).collect()
}

fn check_version(version: i32, schema: &str) -> Result<()> {
    let newest = MIGRATIONS.len();
    if usize::try_from(version).is_ok_and(|version| version <= newest) {
        return Ok(());
    }
    let message = format!(
        "the schema {schema:?} in PostgreSQL has version {version}, and this program knows versions up to \
         {newest}: use a newer program"
    );
    Err(Error::new(ErrorKind::Foreign, message))
}
