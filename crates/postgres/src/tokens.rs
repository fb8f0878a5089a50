//! What became of a commit whose connection was lost.
//!
//! 1. A commit inserts its token into `commits` in the transaction that writes the data, so the token is there exactly
//!    if the data is.
//! 2. To find out, another connection inserts the same token as *not committed*. The token is the primary key, so the
//!    server waits until the first transaction, if it still runs, has ended, and then only one of the two can be there.
//! 3. If the second one is, the first cannot commit any more, whenever its request arrives. So the outcome is certain,
//!    and asking twice returns the same.
//! 4. Tokens are deleted after [`KEPT`]: some when a program opens the database, and some after each
//!    [`COMMITS_BETWEEN_DELETES`] commits of a process, so that a process that runs for years deletes as many as it
//!    makes. A token holds the time of its making, and an older one than [`ASKED`] is not
//!    asked for: the difference is far more than two clocks may differ.

use crate::connection::Connection;
use crate::failure::Trouble;
use crate::pool::Pool;
use crate::statements::quoted;
use base::env::{Clock, Random};
use base::{Error, ErrorKind, Result};
use pando::remote::Token;
use std::thread;
use std::time::{Duration, Instant};

/// How long tokens are kept at least.
const KEPT: &str = "7 days";
/// The number of commits of a process after which it deletes old tokens.
pub(crate) const COMMITS_BETWEEN_DELETES: u64 = 1000;
/// The most tokens that are deleted at once. It is more than are made between two deletes, so that a backlog shrinks,
/// and so few that the commit that deletes them lasts only some milliseconds longer.
const DELETED_AT_ONCE: u64 = 2 * COMMITS_BETWEEN_DELETES;
/// The age in milliseconds up to which the outcome of a commit can be found out: a day.
const ASKED_MS: u64 = 24 * 3600 * 1000;
/// The pause before another attempt to reach the server.
const PAUSE: Duration = Duration::from_millis(100);

/// Returns a new token: 6 bytes of time in milliseconds, 10 random ones.
pub(crate) fn new() -> Token {
    let mut token = [0; 16];
    token[..6].copy_from_slice(&Clock::System.now_ms().to_be_bytes()[2..]);
    token[6..14].copy_from_slice(&Random::from_entropy().next_u64().to_be_bytes());
    token[14..].copy_from_slice(&Random::from_entropy().next_u64().to_be_bytes()[..2]);
    Token(token)
}

/// Returns whether the commit with this token happened. If it has not, it never will.
///
/// # Errors
/// `Io` if the server could not be asked within twice the request timeout; `TooOld` for a token that may be deleted.
pub(crate) fn outcome(pool: &Pool, token: Token) -> Result<bool> {
    let mut made = [0; 8];
    made[2..].copy_from_slice(&token.0[..6]);
    if Clock::System.now_ms().saturating_sub(u64::from_be_bytes(made)) > ASKED_MS {
        let message =
            format!("the commit {token} is more than a day old, and its token may have been deleted");
        return Err(Error::new(ErrorKind::TooOld, message));
    }
    let deadline = Instant::now() + 2 * pool.options().request_timeout;
    loop {
        match ask(pool, token) {
            Ok(committed) => return Ok(committed),
            Err(trouble) if Instant::now() >= deadline => return Err(Error::from(trouble)),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

fn ask(pool: &Pool, token: Token) -> std::result::Result<bool, Trouble> {
    let schema = quoted(&pool.options().schema);
    let insert =
        format!("INSERT INTO {schema}.commits (token, committed) VALUES ($1, false) ON CONFLICT DO NOTHING");
    let select = format!("SELECT committed::bool FROM {schema}.commits WHERE token = $1");
    let token = &token.0[..];
    // A connection of its own: the pool's are in doubt, and may all be in use.
    pool.open_bare()?.run_bare(async |client| {
        // Under a stricter isolation, the server would refuse to look past the other transaction.
        client.batch_execute("SET default_transaction_isolation = 'read committed'").await?;
        client.execute(&insert, &[&token]).await?;
        client.query_one(&select, &[&token]).await?.try_get(0)
    })
}

/// Deletes the oldest of the tokens that nobody will ask for, at most [`DELETED_AT_ONCE`].
pub(crate) fn delete_old(connection: &mut Connection, schema: &str) -> std::result::Result<(), Trouble> {
    let schema = quoted(schema);
    let delete = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED;
         DELETE FROM {schema}.commits WHERE token IN (
             SELECT token FROM {schema}.commits WHERE made < now() - interval '{KEPT}'
             ORDER BY made LIMIT {DELETED_AT_ONCE}
         );
         COMMIT"
    );
    connection.run_bare(async |client| client.batch_execute(&delete).await)
}
