//! A database of nothing but numbered changes.

use crate::source::{Follow, Origin, Source, Stamp, Target};
use base::codec::{Reader, Writer as _};
use base::env::Clock;
use base::sync::lock;
use base::{Error, ErrorKind, Result};
use pando::Identity;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Commits are numbered from 1: change `n` is at `n - 1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History(pub Vec<(u64, Vec<u8>)>);

#[derive(Debug)]
pub struct Inner {
    pub history: History,
    pub identity: Identity,
    pub origin: Option<Origin>,
    /// Changes up to this one are no longer kept for followers.
    pub forgotten: u64,
}

/// Clones share one history.
#[derive(Clone, Debug)]
pub struct Model(pub Arc<Mutex<Inner>>);

impl Model {
    pub fn new(fork: u32) -> Self {
        let identity = Identity { database: 77, fork };
        let history = History::default();
        Model(Arc::new(Mutex::new(Inner { history, identity, origin: None, forgotten: 0 })))
    }

    /// A database that was restored from a lineage.
    pub fn restored(fork: u32, history: History, lineage: u64) -> Self {
        let model = Model::new(fork);
        let commit = history.0.len() as u64;
        let mut inner = lock(&model.0);
        let origin = Origin { lineage, commit, after_drop: false };
        (inner.history, inner.origin, inner.forgotten) = (history, Some(origin), commit);
        drop(inner);
        model
    }

    pub fn commit(&self, time_ms: u64, bytes: impl Into<Vec<u8>>) -> u64 {
        let history = &mut lock(&self.0).history.0;
        history.push((time_ms, bytes.into()));
        history.len() as u64
    }

    pub fn history(&self) -> History {
        lock(&self.0).history.clone()
    }

    pub fn forget(&self) {
        let mut inner = lock(&self.0);
        inner.forgotten = inner.history.0.len() as u64;
    }

    /// Another copy of the same database, as `cp` makes it.
    pub fn copy(&self) -> Self {
        let inner = lock(&self.0);
        let (history, identity) = (inner.history.clone(), inner.identity);
        let (origin, forgotten) = (inner.origin, inner.forgotten);
        Model(Arc::new(Mutex::new(Inner { history, identity, origin, forgotten })))
    }
}

impl History {
    pub fn prefix(&self, commits: u64) -> History {
        History(self.0[..commits as usize].to_vec())
    }
}

fn encode(out: &mut dyn Write, commit: u64, time_ms: u64, bytes: &[u8]) {
    for word in [commit, time_ms, bytes.len() as u64] {
        out.write_all(&word.to_le_bytes()).unwrap();
    }
    // In pieces, as a feed writes long ones.
    bytes.chunks(100_000).for_each(|piece| out.write_all(piece).unwrap());
}

impl Source for Model {
    fn identity(&self) -> Result<Identity> {
        Ok(lock(&self.0).identity)
    }

    fn origin(&self) -> Result<Option<Origin>> {
        Ok(lock(&self.0).origin)
    }

    fn newest(&self) -> Result<u64> {
        Ok(lock(&self.0).history.0.len() as u64)
    }

    fn time_ms(&self) -> u64 {
        let newest_ms = lock(&self.0).history.0.iter().map(|(time_ms, _)| *time_ms).max();
        Clock::default().now_ms().max(newest_ms.unwrap_or(0))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn follow(&self, after: u64) -> Result<Box<dyn Follow>> {
        if after < lock(&self.0).forgotten {
            return Err(Error::new(ErrorKind::TooOld, "the model has forgotten them"));
        }
        Ok(Box::new(Following { model: self.clone(), at: after }))
    }

    fn backup(&self, out: &mut dyn Write) -> Result<u64> {
        let history = self.history();
        let mut bytes = Vec::new();
        for (index, (time_ms, change)) in history.0.iter().enumerate() {
            encode(&mut bytes, index as u64 + 1, *time_ms, change);
        }
        let failed = |error| Error::io("write the backup", error);
        bytes.chunks(128 << 10).try_for_each(|piece| out.write_all(piece)).map_err(failed)?;
        Ok(history.0.len() as u64)
    }
}

struct Following {
    model: Model,
    at: u64,
}

impl Follow for Following {
    fn next(&mut self, wait: Duration, out: &mut dyn Write) -> Result<Option<Stamp>> {
        let until = Instant::now() + wait;
        loop {
            let found = {
                let inner = lock(&self.model.0);
                if self.at < inner.forgotten {
                    return Err(Error::new(ErrorKind::TooOld, "the model has forgotten it"));
                }
                inner.history.0.get(self.at as usize).cloned()
            };
            if let Some((time_ms, bytes)) = found {
                self.at += 1;
                encode(out, self.at, time_ms, &bytes);
                return Ok(Some(Stamp { commit: self.at, time_ms }));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Target for History {
    fn base(&mut self, backup: &mut dyn Read) -> Result<u64> {
        self.0.clear();
        self.apply(backup)?;
        Ok(self.0.len() as u64)
    }

    fn apply(&mut self, changes: &mut dyn Read) -> Result<()> {
        let mut bytes = Vec::new();
        changes.read_to_end(&mut bytes).map_err(|error| Error::io("read the changes", error))?;
        let mut reader = Reader::new(&bytes);
        while !reader.is_empty() {
            let (commit, time_ms) = (reader.u64().unwrap(), reader.u64().unwrap());
            let len = reader.u64().unwrap() as usize;
            let bytes = reader.take(len).expect("the change is whole");
            if commit != self.0.len() as u64 + 1 {
                let at = self.0.len();
                return Err(Error::new(ErrorKind::Missing, format!("commit {commit} does not follow {at}")));
            }
            self.0.push((time_ms, bytes.to_vec()));
        }
        Ok(())
    }
}

/// What one change has in the encoding of the model, for tests that make batches by hand.
pub fn encoded(commit: u64, time_ms: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, commit, time_ms, bytes);
    debug_assert!({
        let mut check = Vec::new();
        check.put_u64(commit);
        out.starts_with(&check)
    });
    out
}
