//! What SQL needs of the databases of a server.

use crate::data::databases::Databases;
use crate::data::engine::Native;
#[cfg(feature = "remote")]
use crate::data::engine::Remote;
use crate::data::open::Open;
#[cfg(feature = "remote")]
use crate::data::remote::databases::RemoteDatabases;
#[cfg(feature = "remote")]
use crate::data::remote::failures::of_store;
use crate::data::replicas::redirected;
use crate::data::served::Served;
use crate::wire::problem::Answer;
use axum::http::Uri;
use sql::Sql;

/// An engine whose databases can be asked in SQL.
pub trait Queried: Served {
    /// Returns the SQL interface of a database.
    fn sql(open: &Open<Self>) -> &Sql;

    /// Returns whether the databases are replicas, to which no client writes.
    fn is_replica(databases: &Self::Databases) -> bool;

    /// Replaces the problem of a statement by what the engine says of it: where a replica's primary is, or why a store
    /// failed.
    fn explained(databases: &Self::Databases, answer: Answer, uri: &Uri) -> Answer;

    /// Returns whether a write is acknowledged only once it is in a bucket.
    fn waits_for_bucket(databases: &Self::Databases) -> bool;

    /// Waits until everything that was committed is in the bucket. The thread may wait.
    ///
    /// # Errors
    /// 503 if it is not there in time.
    fn wait_until_shipped(open: &Open<Self>) -> Answer<()>;
}

impl Queried for Native {
    fn sql(open: &Open) -> &Sql {
        &open.own.sql
    }

    fn is_replica(databases: &Databases) -> bool {
        databases.is_replica()
    }

    fn explained(databases: &Databases, answer: Answer, uri: &Uri) -> Answer {
        redirected(answer, databases.replicas().map(|replicas| &**replicas), uri)
    }

    fn waits_for_bucket(databases: &Databases) -> bool {
        databases.waits_for_bucket()
    }

    fn wait_until_shipped(open: &Open) -> Answer<()> {
        open.wait_until_shipped()
    }
}

/// A store replicates itself, and is shipped nowhere.
#[cfg(feature = "remote")]
impl Queried for Remote {
    fn sql(open: &Open<Remote>) -> &Sql {
        &open.own.sql
    }

    fn is_replica(_: &RemoteDatabases) -> bool {
        false
    }

    fn explained(_: &RemoteDatabases, answer: Answer, _: &Uri) -> Answer {
        answer.map_err(of_store)
    }

    fn waits_for_bucket(_: &RemoteDatabases) -> bool {
        false
    }

    fn wait_until_shipped(_: &Open<Remote>) -> Answer<()> {
        Ok(())
    }
}
