//! A bucket as the source of a replica.

use crate::failure::Outcome;
use pando::{Database, Result};
use server::following::{Feed, Source, Watch};
use ship::{Bucket, Follower, Goal};
use std::path::Path;
use std::time::Duration;

/// A bucket that `serve --ship` or `pando ship` fills.
#[derive(Debug)]
pub struct FromBucket {
    address: String,
    bucket: Bucket,
    primary: Option<String>,
    interval: Duration,
}

impl FromBucket {
    /// Connects to the bucket.
    pub fn connect(address: &str, primary: Option<&str>, interval: Duration) -> Outcome<Self> {
        let primary = primary.map(super::http::redirect_to).transpose()?;
        let bucket = Bucket::connect_existing(address)?;
        Ok(FromBucket { address: address.to_owned(), bucket, primary, interval })
    }
}

impl Source for FromBucket {
    fn address(&self) -> &str {
        &self.address
    }

    fn primary(&self) -> Option<&str> {
        self.primary.as_deref()
    }

    fn databases(&self) -> Result<Vec<String>> {
        crate::ship::bucket::databases(&self.bucket)
    }

    fn copy(&self, name: &str, dir: &Path, watch: &dyn Watch) -> Result<Box<dyn Feed>> {
        let bucket = crate::ship::bucket::of_database(&self.bucket, name)?;
        // The replica can say meanwhile how much it lacks.
        watch.reached(bucket.newest_commit()?);
        ship::restore(&bucket, Goal::Newest, dir, &mut |_| {})?;
        Ok(Box::new(FromLog { follower: Follower::open(&bucket, dir)?, interval: self.interval }))
    }

    fn resume(&self, name: &str, dir: &Path, _: &Database) -> Result<Box<dyn Feed>> {
        let bucket = crate::ship::bucket::of_database(&self.bucket, name)?;
        Ok(Box::new(FromLog { follower: Follower::open(&bucket, dir)?, interval: self.interval }))
    }

    fn take_over(&self, name: &str, dir: &Path, db: &Database) -> Result<()> {
        let bucket = crate::ship::bucket::of_database(&self.bucket, name)?;
        Follower::open(&bucket, dir)?.take_over(db).map(drop)
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
