//! Authorization by bearer tokens: whether a request may do what it asks for.
//!
//! 1. The hash of a presented token is compared with every stored one in constant time, even after a match, so the time
//!    reveals nothing.
//! 2. As long as there is no file of tokens, no token is required. A server that listens on more than this machine then
//!    refuses to start, unless an option allows it.
//! 3. A token can have a rate, and a number of requests at a time: requests that exceed one of them are refused. A
//!    request is counted once, when it is admitted, and has its [`Turn`] until its response was sent. After the file
//!    was read again, rates begin anew; turns do not.
//! 4. The last use of a token is noted at most once a second, so that requests do not write one cache line in turns.
//! 5. A running server checks every second whether the file was replaced. If it was removed, tokens are still required,
//!    and none is valid; a server that is started without the file requires none (2). A response that is sent for long
//!    ends when its token is not valid any more: see [`Pass`](crate::access::pass::Pass).

use crate::access::credentials::credentials;
use crate::access::rate::Rate;
use crate::access::tokens::{Scope, Stamp, Token, TokenFile, now_s};
use crate::wire::problem::{Answer, Problem};
use arc_swap::ArcSwap;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use pando::Result;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The permission that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need<'r> {
    /// None: the health of the server is public.
    Nothing,
    /// Any token: the response depends on the token, or contains no user's data.
    Any,
    /// This scope in one database.
    In(&'r str, Scope),
    /// This scope in all databases.
    All(Scope),
}

/// The tokens that a running server knows.
#[derive(Debug)]
pub struct Gatekeeper {
    file: TokenFile,
    tokens: ArcSwap<Vec<Known>>,
    /// The file when it was last read.
    seen: Mutex<Option<Stamp>>,
    /// The number of times that a token was presented that is not valid.
    failed_logins: AtomicU64,
}

/// A token, ready to be compared.
#[derive(Debug)]
struct Known {
    hash: [u8; 32],
    scope: Scope,
    database: Option<Box<str>>,
    rate: Option<Rate>,
    /// When it ends to be valid, in seconds since 1970.
    expires_s: Option<u64>,
    /// When a request last presented it, in seconds since 1970; 0: not since the server started.
    used_s: AtomicU64,
    turns: Option<Turns>,
}

/// The requests that a token allows at a time.
#[derive(Clone, Debug)]
struct Turns {
    most: u32,
    free: Arc<Semaphore>,
}

/// The turn of a request whose token has a limit, until it is dropped. `None` without a limit.
pub type Turn = Option<OwnedSemaphorePermit>;

impl Turns {
    fn new(most: u32) -> Self {
        Turns { most, free: Arc::new(Semaphore::new(most as usize)) }
    }

    fn take(&self) -> Answer<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_owned().map_err(|_| too_many(self.most))
    }
}

impl Gatekeeper {
    /// Reads the tokens of `dir`.
    pub fn new(dir: &Path) -> Result<Self> {
        let keeper = Gatekeeper {
            file: TokenFile::in_dir(dir),
            tokens: ArcSwap::default(),
            seen: Mutex::default(),
            failed_logins: AtomicU64::new(0),
        };
        keeper.refresh()?;
        Ok(keeper)
    }

    /// Returns whether a token is required.
    #[inline]
    pub fn is_on_guard(&self) -> bool {
        !self.tokens.load().is_empty()
    }

    /// Reads the file again if it has changed.
    pub fn refresh(&self) -> Result<()> {
        let stamp = self.file.stamp();
        let mut seen = self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if stamp == *seen {
            return Ok(());
        }
        let mut known = self.file.list()?.into_iter().map(Known::new).collect::<Result<Vec<_>>>()?;
        let earlier = self.tokens.load();
        for known in &mut known {
            if let Some(before) = earlier.iter().find(|before| before.hash == known.hash) {
                known.keep(before);
            }
        }
        // An operator who revokes the last token, or removes the file, wants to restrict access, not to open it.
        let shut = known.is_empty() && (stamp.is_some() || !earlier.is_empty());
        if stamp.is_none() && shut {
            tracing::warn!(
                "the file of tokens was removed: all tokens are revoked, and every request is refused until \
                 there is a token again, or until the server is started again without the file"
            );
        }
        self.tokens.store(if shut { vec![Known::nobody()].into() } else { known.into() });
        *seen = stamp;
        Ok(())
    }

    /// Checks whether a request with these headers has the permission that it needs. If no token is required,
    /// `unguarded` decides.
    ///
    /// # Errors
    /// 401 without a known token, 403 with a token whose scope is too small, 429 if the token has used up its rate or
    /// has as many requests in progress as it allows; those of `unguarded`.
    #[inline]
    pub fn admit(
        &self,
        headers: &HeaderMap,
        need: Need<'_>,
        unguarded: impl FnOnce() -> Answer<()>,
    ) -> Answer<Turn> {
        let tokens = self.tokens.load();
        if tokens.is_empty() {
            return unguarded().map(|()| None);
        }
        if need == Need::Nothing {
            return Ok(None);
        }
        let known = find(&tokens, headers).ok_or_else(|| self.reject(headers))?;
        if !known.allows(need) {
            return Err(forbidden());
        }
        // A request that has no turn does not use up the rate.
        let turn = known.turns.as_ref().map(Turns::take).transpose()?;
        known.note_use();
        match known.rate.as_ref().and_then(Rate::take) {
            None => Ok(turn),
            Some(wait) => Err(too_fast(wait)),
        }
    }

    /// Returns the problem of a request without a known token, and counts a token that is not known.
    #[cold]
    fn reject(&self, headers: &HeaderMap) -> Problem {
        if !headers.contains_key(AUTHORIZATION) {
            return unauthorized(
                "a token is required: send `Authorization: Bearer TOKEN`; create one with `pando token \
                 create`",
            );
        }
        self.fail_login();
        unauthorized(
            "the token in `Authorization` is not valid: it is unknown, was revoked, or has expired; create \
             one with `pando token create`, and send `Authorization: Bearer TOKEN`",
        )
    }

    fn fail_login(&self) {
        // Relaxed: this is a counter, which orders nothing.
        self.failed_logins.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the file of tokens.
    pub fn file(&self) -> &TokenFile {
        &self.file
    }

    /// Returns the hash of each token, and when it was last used, in seconds since 1970.
    pub fn last_uses(&self) -> Vec<([u8; 32], Option<u64>)> {
        let used = |known: &Known| {
            let used_s = known.used_s.load(Ordering::Relaxed); // Relaxed: it is shown, and orders nothing.
            (known.hash, (used_s > 0).then_some(used_s))
        };
        self.tokens.load().iter().map(used).collect()
    }

    /// Returns how often a token was presented that is unknown or revoked.
    pub fn failed_logins(&self) -> u64 {
        // Relaxed: as above.
        self.failed_logins.load(Ordering::Relaxed)
    }

    /// Returns the scope of a token in a database; `None` if the token is unknown, or applies to another database.
    #[cfg(feature = "redis")]
    pub fn scope_in(&self, token: &[u8], database: &str) -> Option<Scope> {
        let tokens = self.tokens.load();
        let Some(known) = find_token(&tokens, token) else {
            self.fail_login();
            return None;
        };
        known.allows(Need::In(database, Scope::Read)).then_some(known.scope)
    }

    /// Returns whether a token with this hash is valid.
    pub fn knows(&self, hash: &[u8; 32]) -> bool {
        find_hash(&self.tokens.load(), hash).is_some()
    }

    /// Returns what the sender of these headers may do. The request was already counted when it was admitted.
    pub fn rights(&self, headers: &HeaderMap) -> Rights {
        let tokens = self.tokens.load();
        if tokens.is_empty() {
            return Rights { scope: Some(Scope::Admin), database: None };
        }
        match find(&tokens, headers) {
            Some(known) => Rights { scope: Some(known.scope), database: known.database.clone() },
            None => Rights { scope: None, database: None },
        }
    }
}

/// What the sender of a request may do.
#[derive(Debug)]
pub struct Rights {
    /// The scope of the token; `None`: the token is not known.
    scope: Option<Scope>,
    /// The only database to which it applies.
    database: Option<Box<str>>,
}

impl Rights {
    /// Returns whether the sender has a valid token, or needs none.
    pub fn is_known(&self) -> bool {
        self.scope.is_some()
    }

    /// Returns the scope over all databases; `None` if there is none.
    pub fn in_all(&self) -> Option<Scope> {
        self.scope.filter(|_| self.database.is_none())
    }

    /// Returns the scope in a database; `None` if the sender may not see that it exists.
    pub fn in_database(&self, database: &str) -> Option<Scope> {
        self.scope.filter(|_| self.database.as_deref().is_none_or(|own| own == database))
    }
}

impl Known {
    fn new(token: Token) -> Result<Self> {
        Ok(Known {
            hash: token.hash()?,
            scope: token.scope,
            database: token.database.map(String::into_boxed_str),
            rate: token.rate.map(Rate::new),
            turns: token.concurrency.map(Turns::new),
            expires_s: token.expires_s,
            used_s: AtomicU64::new(0),
        })
    }

    /// Stands for all revoked tokens: no token has this hash.
    fn nobody() -> Self {
        let (expires_s, used_s) = (None, AtomicU64::new(0));
        Known {
            hash: [0; 32],
            scope: Scope::Read,
            database: Some("".into()),
            rate: None,
            turns: None,
            expires_s,
            used_s,
        }
    }

    /// Keeps the turns of the requests in progress, if the token was known with the same limit, and its last use.
    fn keep(&mut self, before: &Known) {
        // Relaxed: it is shown, and orders nothing.
        self.used_s.store(before.used_s.load(Ordering::Relaxed), Ordering::Relaxed);
        if let (Some(turns), Some(same)) = (&mut self.turns, &before.turns)
            && same.most == turns.most
        {
            *turns = same.clone();
        }
    }

    #[inline]
    fn note_use(&self) {
        let now_s = now_s();
        // Relaxed for both: it is shown, and orders nothing.
        if self.used_s.load(Ordering::Relaxed) != now_s {
            self.used_s.store(now_s, Ordering::Relaxed); // Relaxed: as above.
        }
    }

    #[inline]
    fn is_expired(&self) -> bool {
        self.expires_s.is_some_and(|expires_s| expires_s <= now_s())
    }

    fn allows(&self, need: Need<'_>) -> bool {
        match need {
            Need::Nothing | Need::Any => true,
            Need::In(database, scope) => {
                self.scope >= scope && self.database.as_deref().is_none_or(|own| own == database)
            }
            Need::All(scope) => self.scope >= scope && self.database.is_none(),
        }
    }
}

fn find<'t>(tokens: &'t [Known], headers: &HeaderMap) -> Option<&'t Known> {
    find_token(tokens, &credentials(headers)?)
}

fn find_token<'t>(tokens: &'t [Known], token: &[u8]) -> Option<&'t Known> {
    find_hash(tokens, &Sha256::digest(token).into())
}

fn find_hash<'t>(tokens: &'t [Known], hash: &[u8; 32]) -> Option<&'t Known> {
    let mut found = None;
    for known in tokens {
        if bool::from(known.hash.ct_eq(hash)) {
            found = Some(known);
        }
    }
    found.filter(|known| !known.is_expired())
}

#[cold]
fn unauthorized(detail: &'static str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

#[cold]
fn too_fast(wait: Duration) -> Problem {
    let detail = "the token has used up its requests of this second; nothing was done; try again later";
    let mut problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate-limit", detail);
    problem.retry_after_s = Some((wait.as_millis() as u32).div_ceil(1000).max(1));
    problem
}

#[cold]
fn too_many(most: u32) -> Problem {
    let detail = format!(
        "the token already has {most} requests in progress, which is its limit; nothing was done; try \
         again when one of them has ended"
    );
    let mut problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "concurrency-limit", detail);
    problem.retry_after_s = Some(1);
    problem
}

#[cold]
fn forbidden() -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "forbidden",
        "the token does not allow this request; use one with a wider scope, or for this database",
    )
}

#[cfg(test)]
mod tests;
