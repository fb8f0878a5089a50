//! Authorization by bearer tokens. Each token has a scope over one database or over all.
//!
//! 1. A token is 32 random bytes, and its SHA-256 is stored. Such a token cannot be guessed, so no slow hash is needed,
//!    and a reader of the file has no token.
//! 2. The hash of a presented token is compared with every stored one in constant time, even after a match, so the time
//!    reveals nothing.
//! 3. As long as there is no file of tokens, no token is required. A server that listens on more than this machine then
//!    refuses to start, unless an option allows it.
//! 4. A token can have a rate: requests that exceed it are refused. After the file was read again, rates begin anew.
//! 5. The file is replaced as a whole, by a rename. A running server checks it every second.

use crate::access::rate::Rate;
use crate::data::names::is_name;
use crate::wire::digits::{hex, random};
use crate::wire::problem::{Answer, Problem};
use arc_swap::ArcSwap;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use pando::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{ErrorKind as IoErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use subtle::ConstantTimeEq;

/// The file of tokens in the served directory.
const FILE: &str = "tokens.json";
/// The prefix of every token, by which a leaked token can be recognized.
const PREFIX: &str = "pando_";
const SECRET_BYTES: usize = 32;

/// The permissions of a token. Each scope includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Reading records.
    Read,
    /// Reading and changing records.
    Write,
    /// Everything: also databases, tables, backups and profiles.
    Admin,
}

/// A token, as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Token {
    /// The name of the token.
    pub name: String,
    /// The scope of the token.
    pub scope: Scope,
    /// The only database to which the token applies; `None`: all.
    pub database: Option<String>,
    /// When it was created, in seconds since 1970.
    pub created_s: u64,
    /// The number of requests a second that it allows; `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// SHA-256 of the token, in hexadecimal digits.
    sha256: String,
}

/// The tokens of a served directory. `pando token` changes them.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// Creates a handle for the directory `dir`, which need not have tokens yet.
    pub fn in_dir(dir: &Path) -> Self {
        TokenFile { path: dir.join(FILE) }
    }

    /// Returns all tokens.
    ///
    /// # Errors
    /// `Invalid` if the file is not a list of tokens.
    pub fn list(&self) -> Result<Vec<Token>> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed("read", error)),
        };
        serde_json::from_slice(&text).map_err(|error| self.unreadable(&error.to_string()))
    }

    /// Creates a token and returns it. It cannot be shown again, because only its hash is stored.
    ///
    /// # Errors
    /// `Exists` if a token `name` already exists; `Invalid` if `name` is not a valid name.
    pub fn create(&self, name: &str, scope: Scope, database: Option<String>) -> Result<String> {
        self.create_with_rate(name, scope, database, None)
    }

    /// Creates a token that allows at most `rate` requests a second, if that is given. See [`TokenFile::create`].
    ///
    /// # Errors
    /// As for [`TokenFile::create`]; `Invalid` if `rate` is 0.
    pub fn create_with_rate(
        &self,
        name: &str,
        scope: Scope,
        database: Option<String>,
        rate: Option<u32>,
    ) -> Result<String> {
        if rate == Some(0) {
            return Err(Error::invalid("a token's rate must be at least one request a second"));
        }
        if name.is_empty() || name.len() > 100 || name.chars().any(char::is_control) {
            return Err(Error::invalid("a token's name must have 1 to 100 bytes and no control characters"));
        }
        if let Some(database) = database.as_ref().filter(|database| !is_name(database)) {
            return Err(Error::invalid(format!("{database:?} is not a valid name of a database")));
        }
        let dir = self.dir();
        fs::create_dir_all(dir).map_err(|error| self.failed("make the directory of", error))?;
        let _turn = self.take_turn()?;
        let mut tokens = self.list()?;
        if tokens.iter().any(|token| token.name == name) {
            return Err(Error::new(
                ErrorKind::Exists,
                format!("a token {name:?} already exists; revoke it first"),
            ));
        }
        let mut secret = [0; SECRET_BYTES];
        random(&mut secret)?;
        let text = format!("{PREFIX}{}", hex(&secret));
        let created_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let sha256 = hex(&Sha256::digest(&text));
        tokens.push(Token { name: name.to_owned(), scope, database, created_s, rate, sha256 });
        self.store(&tokens)?;
        Ok(text)
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// `Missing` if there is no token `name`.
    pub fn revoke(&self, name: &str) -> Result<()> {
        let _turn = self.take_turn()?;
        let mut tokens = self.list()?;
        let before = tokens.len();
        tokens.retain(|token| token.name != name);
        if tokens.len() == before {
            return Err(Error::new(ErrorKind::Missing, format!("there is no token {name:?}")));
        }
        self.store(&tokens)
    }

    fn dir(&self) -> &Path {
        self.path.parent().expect("it was joined to a directory")
    }

    /// Locks the tokens for a change, until the file is dropped. A concurrent process that had read them before a token
    /// was revoked would restore it. Returns `None` if there is no directory, and so no token.
    fn take_turn(&self) -> Result<Option<fs::File>> {
        let dir = match fs::File::open(self.dir()) {
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| self.failed("open the directory of", error))?,
        };
        dir.lock().map_err(|error| self.failed("lock the directory of", error))?;
        Ok(Some(dir))
    }

    /// Replaces the file. Only its owner can read the new one.
    fn store(&self, tokens: &[Token]) -> Result<()> {
        use std::os::unix::fs::OpenOptionsExt;
        let dir = self.dir();
        let text = serde_json::to_vec_pretty(tokens).expect("tokens are plain data");
        let new = self.path.with_extension("new");
        let write = || {
            let mut options = fs::OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, &self.path)?;
            fs::File::open(dir)?.sync_all()
        };
        write().map_err(|error| self.failed("write", error))
    }

    /// Returns an error that the file cannot be read. The databases beside it are not affected, so there is nothing to
    /// salvage.
    fn unreadable(&self, what: &str) -> Error {
        Error::invalid(format!(
            "{} is not a list of tokens ({what}): restore it, or delete it and create the tokens again with \
             `pando token create`",
            self.path.display()
        ))
    }

    fn failed(&self, what: &str, error: std::io::Error) -> Error {
        Error::io(format!("{what} {}", self.path.display()), error)
    }
}

/// The permission that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need<'r> {
    /// None: the health of the server is public.
    Nothing,
    /// Any token: the response depends on the token, or contains nobody's data.
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
    /// The time, length and number of the file when it was last read.
    seen: Mutex<Option<(SystemTime, u64, u64)>>,
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
        let meta = fs::metadata(&self.file.path).ok();
        let stamp = meta.and_then(|meta| Some((meta.modified().ok()?, meta.len(), meta.ino())));
        let mut seen = self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // If the file is removed, tokens are still required: all tokens are revoked, and every request is refused.
        if stamp == *seen || (stamp.is_none() && seen.is_some()) {
            return Ok(());
        }
        let known = self.file.list()?.into_iter().map(Known::new).collect::<Result<Vec<_>>>()?;
        // An operator who revokes the last token wants to restrict access, not to open it.
        let shut = known.is_empty() && stamp.is_some();
        self.tokens.store(if shut { vec![Known::nobody()].into() } else { known.into() });
        *seen = stamp;
        Ok(())
    }

    /// Checks whether a request with these headers has the permission that it needs.
    ///
    /// # Errors
    /// 401 without a known token, 403 with a token whose scope is too small, 429 if the token has used up its rate.
    #[inline]
    pub fn admit(&self, headers: &HeaderMap, need: Need<'_>) -> Answer<()> {
        let tokens = self.tokens.load();
        if tokens.is_empty() || need == Need::Nothing {
            return Ok(());
        }
        let known = find(&tokens, headers).ok_or_else(|| self.reject(headers))?;
        if !known.allows(need) {
            return Err(forbidden());
        }
        match known.rate.as_ref().and_then(Rate::take) {
            None => Ok(()),
            Some(wait) => Err(too_fast(wait)),
        }
    }

    /// Returns the problem of a request without a known token, and counts a token that is not known.
    #[cold]
    fn reject(&self, headers: &HeaderMap) -> Problem {
        if headers.contains_key(AUTHORIZATION) {
            self.fail_login();
        }
        unauthorized()
    }

    fn fail_login(&self) {
        // Relaxed: this is a counter, which orders nothing.
        self.failed_logins.fetch_add(1, Ordering::Relaxed);
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

    /// Returns the widest scope that the sender of these headers has in a database, or in all of them (`None`).
    /// Without tokens it is `Admin`.
    pub fn scope_of(&self, headers: &HeaderMap, database: Option<&str>) -> Option<Scope> {
        let need = |scope| database.map_or(Need::All(scope), |database| Need::In(database, scope));
        [Scope::Admin, Scope::Write, Scope::Read].into_iter().find(|&scope| self.allows(headers, need(scope)))
    }

    /// Returns whether the sender of these headers may see that this database exists.
    pub fn may_see(&self, headers: &HeaderMap, database: &str) -> bool {
        self.allows(headers, Need::In(database, Scope::Read))
    }

    /// Returns whether the sender of these headers has a permission. The request was already counted when it was
    /// admitted.
    fn allows(&self, headers: &HeaderMap, need: Need<'_>) -> bool {
        let tokens = self.tokens.load();
        tokens.is_empty() || find(&tokens, headers).is_some_and(|known| known.allows(need))
    }
}

impl Known {
    fn new(token: Token) -> Result<Self> {
        let wrong = || {
            let name = &token.name;
            Error::invalid(format!("token {name:?} in {FILE} has no SHA-256: revoke it and create another"))
        };
        let mut hash = [0; 32];
        if token.sha256.len() != 64 || !token.sha256.is_ascii() {
            return Err(wrong());
        }
        for (byte, digits) in hash.iter_mut().zip(token.sha256.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Known {
            hash,
            scope: token.scope,
            database: token.database.map(String::into_boxed_str),
            rate: token.rate.map(Rate::new),
        })
    }

    /// Stands for all revoked tokens: no token has this hash.
    fn nobody() -> Self {
        Known { hash: [0; 32], scope: Scope::Read, database: Some("".into()), rate: None }
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
    let presented = headers.get(AUTHORIZATION)?.as_bytes();
    find_token(tokens, &credentials(presented)?)
}

fn find_token<'t>(tokens: &'t [Known], token: &[u8]) -> Option<&'t Known> {
    let hash: [u8; 32] = Sha256::digest(token).into();
    let mut found = None;
    for known in tokens {
        if bool::from(known.hash.ct_eq(&hash)) {
            found = Some(known);
        }
    }
    found
}

/// Returns the token in an `Authorization` header: after `Bearer`, or as the password of `Basic`, which browsers can
/// ask for.
fn credentials(header: &[u8]) -> Option<Vec<u8>> {
    let (scheme, rest) = header.split_at_checked(header.iter().position(|&byte| byte == b' ')?)?;
    let rest = rest.trim_ascii();
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Some(rest.to_vec());
    }
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let pair = from_base64(rest)?;
    let colon = pair.iter().position(|&byte| byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::with_capacity(digits.len()));
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cold]
fn unauthorized() -> Problem {
    let detail =
        "a token is required: send `Authorization: Bearer TOKEN`; create one with `pando token create`";
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
fn forbidden() -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "forbidden",
        "the token does not allow this request; use one with a wider scope, or for this database",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(authorization: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, authorization.parse().unwrap())])
    }

    #[test]
    fn a_token_opens_what_its_scope_says() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::in_dir(dir.path());
        let keeper = Gatekeeper::new(dir.path()).unwrap();
        assert!(keeper.admit(&HeaderMap::new(), Need::All(Scope::Admin)).is_ok(), "no tokens, no guard");
        let reader = file.create("reader", Scope::Read, Some("a".into())).unwrap();
        let admin = file.create("admin", Scope::Admin, None).unwrap();
        keeper.refresh().unwrap();
        let status = |headers: &HeaderMap, need| keeper.admit(headers, need).map_err(|p| p.status.as_u16());
        assert_eq!(status(&HeaderMap::new(), Need::Any), Err(401));
        assert_eq!(status(&HeaderMap::new(), Need::Nothing), Ok(()));
        let bearer = |token: &str| headers(&format!("Bearer {token}"));
        assert_eq!(status(&bearer("pando_wrong"), Need::Any), Err(401));
        assert_eq!(status(&bearer(&reader), Need::In("a", Scope::Read)), Ok(()));
        assert_eq!(status(&bearer(&reader), Need::In("a", Scope::Write)), Err(403));
        assert_eq!(status(&bearer(&reader), Need::In("b", Scope::Read)), Err(403));
        assert_eq!(status(&bearer(&reader), Need::All(Scope::Read)), Err(403));
        assert_eq!(status(&bearer(&admin), Need::All(Scope::Admin)), Ok(()));
        assert_eq!(status(&headers("bearer"), Need::Any), Err(401));
        assert!(!fs::read_to_string(dir.path().join(FILE)).unwrap().contains(&admin[10..]));
    }

    #[test]
    fn the_last_token_revoked_leaves_the_door_shut() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::in_dir(dir.path());
        let token = file.create("only", Scope::Admin, None).unwrap();
        let keeper = Gatekeeper::new(dir.path()).unwrap();
        assert_eq!(file.create("only", Scope::Read, None).unwrap_err().kind(), ErrorKind::Exists);
        file.revoke("only").unwrap();
        keeper.refresh().unwrap();
        let bearer = headers(&format!("Bearer {token}"));
        assert_eq!(keeper.admit(&bearer, Need::Any).unwrap_err().status, StatusCode::UNAUTHORIZED);
        assert_eq!(file.revoke("only").unwrap_err().kind(), ErrorKind::Missing);
    }

    #[test]
    fn changes_of_the_tokens_wait_for_one_another() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for n in 0..16 {
                let file = TokenFile::in_dir(dir.path());
                scope.spawn(move || {
                    file.create(&format!("kept {n}"), Scope::Read, None).unwrap();
                    file.create(&format!("gone {n}"), Scope::Read, None).unwrap();
                    file.revoke(&format!("gone {n}")).unwrap();
                });
            }
        });
        let tokens = TokenFile::in_dir(dir.path()).list().unwrap();
        assert_eq!(tokens.len(), 16);
        assert!(tokens.iter().all(|token| token.name.starts_with("kept")));
        let nowhere = TokenFile::in_dir(dir.path()).create("a", Scope::Read, Some("a/b".into()));
        assert_eq!(nowhere.unwrap_err().kind(), ErrorKind::Invalid);
    }

    #[test]
    fn a_browser_sends_the_token_as_a_password() {
        assert_eq!(credentials(b"Basic dXNlcjpwYW5kb18x").unwrap(), b"pando_1");
        assert_eq!(credentials(b"Basic OnA=").unwrap(), b"p");
        for wrong in [&b"Basic"[..], b"Basic !!", b"Basic dXNlcg==", b"Digest x", b""] {
            assert_eq!(credentials(wrong), None, "{wrong:?}");
        }
    }
}
