//! The file of tokens. Each token has a scope over one database or over all.
//!
//! 1. A token is 32 random bytes, and its SHA-256 is stored. Such a token cannot be guessed, so no slow hash is needed,
//!    and a reader of the file has no token.
//! 2. The file is replaced as a whole, by a rename, while the directory is locked.

use crate::data::names::is_name;
use crate::wire::digits::{from_hex, hex, random};
use pando::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{ErrorKind as IoErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
    /// The number of requests that it allows at a time; `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// When it ends to be valid, in seconds since 1970; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_s: Option<u64>,
    /// SHA-256 of the token, in hexadecimal digits.
    sha256: String,
}

/// A token that is to be created.
#[derive(Clone, Debug)]
pub struct NewToken<'t> {
    /// The name of the token.
    pub name: &'t str,
    /// The scope of the token.
    pub scope: Scope,
    /// The only database to which the token applies; `None`: all.
    pub database: Option<String>,
    /// The number of requests a second that it allows; `None`: no limit.
    pub rate: Option<u32>,
    /// The number of requests that it allows at a time; `None`: no limit.
    pub concurrency: Option<u32>,
    /// How long it is valid; `None`: until it is revoked.
    pub lives_for: Option<Duration>,
}

/// Returns the time in seconds since 1970.
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Token {
    /// Returns whether the token is not valid any more because its time has passed.
    pub fn is_expired(&self) -> bool {
        self.expires_s.is_some_and(|expires_s| expires_s <= now_s())
    }

    /// Returns whether the token allows everything in all databases, and always will.
    pub(crate) fn administers_all(&self) -> bool {
        self.scope == Scope::Admin && self.database.is_none() && self.expires_s.is_none()
    }

    /// Returns the SHA-256 of the token.
    ///
    /// # Errors
    /// `Invalid` if the file has another text in its place.
    pub(crate) fn hash(&self) -> Result<[u8; 32]> {
        let bytes = from_hex(&self.sha256).and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or_else(|| {
            let name = &self.name;
            Error::invalid(format!("token {name:?} in {FILE} has no SHA-256: revoke it and create another"))
        })
    }
}

/// What changes when the file is replaced: its time, length and number.
pub(super) type Stamp = (SystemTime, u64, u64);

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
        self.create_as(NewToken { name, scope, database, rate: None, concurrency: None, lives_for: None })
    }

    /// Creates a token with all that it can have. See [`TokenFile::create`].
    ///
    /// # Errors
    /// As for [`TokenFile::create`]; `Invalid` if a limit or the time is 0.
    pub fn create_as(&self, new: NewToken<'_>) -> Result<String> {
        let NewToken { name, scope, database, rate, concurrency, lives_for } = new;
        if lives_for.is_some_and(|time| time.as_secs() == 0) {
            return Err(Error::invalid("a token must be valid for at least one second"));
        }
        if rate == Some(0) {
            return Err(Error::invalid("a token's rate must be at least one request a second"));
        }
        if concurrency == Some(0) {
            return Err(Error::invalid("a token must allow at least one request at a time"));
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
        let created_s = now_s();
        let expires_s = lives_for.map(|time| created_s.saturating_add(time.as_secs()));
        let sha256 = hex(&Sha256::digest(&text));
        let name = name.to_owned();
        tokens.push(Token { name, scope, database, created_s, rate, concurrency, expires_s, sha256 });
        self.store(&tokens)?;
        Ok(text)
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// `Missing` if there is no token `name`.
    pub fn revoke(&self, name: &str) -> Result<()> {
        self.revoke_if(name, |_| Ok::<(), std::convert::Infallible>(()))?
            .unwrap_or_else(|never| match never {});
        Ok(())
    }

    /// Revokes a token unless `may`, which gets all tokens, refuses that. Nobody can change them meanwhile.
    ///
    /// # Errors
    /// As for [`TokenFile::revoke`].
    pub(crate) fn revoke_if<E>(
        &self,
        name: &str,
        may: impl FnOnce(&[Token]) -> std::result::Result<(), E>,
    ) -> Result<std::result::Result<(), E>> {
        let _turn = self.take_turn()?;
        let mut tokens = self.list()?;
        if let Err(refused) = may(&tokens) {
            return Ok(Err(refused));
        }
        let before = tokens.len();
        tokens.retain(|token| token.name != name);
        if tokens.len() == before {
            return Err(Error::new(ErrorKind::Missing, format!("there is no token {name:?}")));
        }
        self.store(&tokens)?;
        Ok(Ok(()))
    }

    /// Returns the time, length and number of the file; `None` if there is none.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        let meta = fs::metadata(&self.path).ok()?;
        Some((meta.modified().ok()?, meta.len(), meta.ino()))
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn only_hashes_are_stored_and_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::in_dir(dir.path());
        let token = file.create("a", Scope::Read, None).unwrap();
        let path = dir.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&token[10..]));
        let hash = file.list().unwrap()[0].hash().unwrap();
        assert_eq!(hash[..], Sha256::digest(&token)[..]);
        let digits = hex(&hash);
        for wrong in ["", "00", &"x".repeat(64), &"é".repeat(32), &format!("{digits}00")] {
            fs::write(&path, text.replace(&digits, wrong)).unwrap();
            assert_eq!(file.list().unwrap()[0].hash().unwrap_err().kind(), ErrorKind::Invalid, "{wrong}");
        }
    }
}
