//! A bucket as the source of a replica.

use crate::failure::Outcome;
use pando::{Database, Error, ErrorKind, Result};
use server::following::{Feed, Source, TakeOver, Watch};
use ship::{Bucket, Follower, Goal};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// A bucket that `serve --ship` or `pando ship` fills.
#[derive(Debug)]
pub struct FromBucket {
    address: String,
    bucket: Bucket,
    primary: Option<String>,
    interval: Duration,
    /// What was found out about each name. It is asked for every two seconds, and costs several requests.
    known: Mutex<BTreeMap<String, Known>>,
}

/// What is known of a name.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// It is followed. Its feed notices a drop.
    IsThere,
    /// The database with this number was dropped, which nothing changes any more.
    Dropped(u64),
}

impl FromBucket {
    /// Connects to the bucket.
    pub fn connect(address: &str, primary: Option<&str>, interval: Duration) -> Outcome<Self> {
        let primary = primary.map(super::http::redirect_to).transpose()?;
        let bucket = Bucket::connect_existing(address)?;
        Ok(FromBucket { address: address.to_owned(), bucket, primary, interval, known: Mutex::default() })
    }

    fn of(&self, name: &str) -> Result<Bucket> {
        crate::ship::bucket::of_database(&self.bucket, name)
    }

    /// Returns whether the name has a database that was not dropped, and that can be copied.
    fn is_there(&self, name: &str) -> Result<bool> {
        let known = || self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (bucket, before) = (self.of(name)?, known().get(name).copied());
        match before {
            Some(Known::IsThere) => return Ok(true),
            Some(Known::Dropped(number)) if !bucket.incarnation(number + 1)?.is_shipped()? => {
                return Ok(false);
            }
            _ => {}
        }
        let number = bucket.newest_incarnation()?;
        let bucket = bucket.incarnation(number)?;
        if bucket.dropped_ms()?.is_some() {
            known().insert(name.to_owned(), Known::Dropped(number));
            return Ok(false);
        }
        // Its writer may have ended before it had made the first base.
        let is_there = bucket.has_base()?;
        if is_there {
            known().insert(name.to_owned(), Known::IsThere);
        }
        Ok(is_there)
    }
}

impl Source for FromBucket {
    fn address(&self) -> &str {
        &self.address
    }

    fn primary(&self) -> Option<&str> {
        self.primary.as_deref()
    }

    fn quiet(&self) -> Duration {
        self.interval + Duration::from_secs(3)
    }

    fn databases(&self) -> Result<Vec<String>> {
        crate::ship::bucket::databases(&self.bucket, |name| self.is_there(name))
    }

    fn to_take_over(&self, is_taken: &dyn Fn(&str) -> bool) -> Result<Vec<String>> {
        // What is known of a name may be of the database that had it before.
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
        crate::ship::bucket::databases(&self.bucket, |name| Ok(!is_taken(name) && self.is_there(name)?))
    }

    fn copy(&self, name: &str, dir: &Path, watch: &dyn Watch) -> Result<Box<dyn Feed>> {
        let bucket = self.of(name)?;
        if let Some(dropped_ms) = bucket.dropped_ms()? {
            let message = format!("{bucket}: the database was dropped at {}", ship::moment(dropped_ms));
            return Err(Error::new(ErrorKind::Missing, message));
        }
        // The replica can say meanwhile how much it lacks.
        watch.reached(bucket.newest_commit()?);
        ship::restore(&bucket, Goal::Newest, dir, &mut |_| {})?;
        Ok(Box::new(FromLog { follower: Follower::open(&bucket, dir)?, interval: self.interval }))
    }

    fn resume(&self, name: &str, dir: &Path, _: &Database) -> Result<Box<dyn Feed>> {
        Ok(Box::new(FromLog { follower: Follower::open(&self.of(name)?, dir)?, interval: self.interval }))
    }

    fn take_over(&self, name: &str, dir: &Path, db: &Database) -> Result<TakeOver> {
        let bucket = self.of(name)?;
        let taken = Follower::open(&bucket, dir).and_then(|mut follower| follower.take_over(db));
        let Err(error) = taken else { return Ok(TakeOver::Done) };
        if error.kind() == ErrorKind::TooOld || ship::was_dropped(&bucket, dir)? == Some(true) {
            // Another database may have had the name since, and may have been dropped as well.
            return Ok(match bucket.dropped_ms()? {
                Some(_) => TakeOver::WasDropped,
                None => TakeOver::IsOutdated,
            });
        }
        // The server has created it, because the bucket has none of this name.
        let is_own = error.kind() == ErrorKind::Missing && !bucket.is_shipped()?;
        match is_own && db.snapshot()?.commit_number() == 0 {
            true => Ok(TakeOver::Done),
            false => Err(error),
        }
    }
}

/// One lineage, followed.
struct FromLog {
    follower: Follower,
    interval: Duration,
}

impl Feed for FromLog {
    fn run(&mut self, db: &Database, watch: &dyn Watch) -> Result<()> {
        while !watch.is_over() {
            let advance = self.follower.advance(db)?;
            watch.reached(advance.newest_commit);
            if !advance.has_moved {
                watch.pause(self.interval);
            }
        }
        Ok(())
    }
}
