//! The databases of one name, one after the other: a database is dropped, and another one is created under its name.
//!
//! 1. The first one is in the folder of the name. Number `N`, from 2 on, is in the folder `incarnations/N` within it,
//!    and has the same layout.
//! 2. A lineage ends with a segment that drops its database. That segment is created like every other one: a writer
//!    that was replaced cannot create it. Nothing follows it, and its lineage stays as it is: it can be restored.
//! 3. Number `N` begins only after the drop of `N - 1`. The writer that creates its `lineage` first has it.
//! 4. The newest one is found by a listing, and by a look for the next number. A writer that finds a drop goes on to
//!    the next number, so an old listing costs it nothing but time.

use crate::bucket::Bucket;
use crate::lineage::Lineage;
use crate::name::{self, INCARNATIONS};
use base::limits::NUMBER_LIMIT;
use base::{Error, Result};

impl Bucket {
    /// Returns the bucket of database number `number` of this name, counted from 1. If a database is dropped and
    /// another one is created under its name, that one has the next number. A bucket without a number is that of the
    /// newest database.
    ///
    /// ```
    /// # fn main() -> pando::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bucket = pando_ship::Bucket::connect(dir.path().to_str().unwrap())?.within("orders")?;
    /// let second = bucket.incarnation(2)?;
    /// assert!(second.to_string().ends_with("orders/incarnations/00000000000000000002"));
    /// assert_eq!(bucket.newest_incarnation()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` if `number` is 0, or so large that no database has it.
    pub fn incarnation(&self, number: u64) -> Result<Self> {
        match number {
            1 => Ok(self.of_incarnation(1, None)),
            2..NUMBER_LIMIT => Ok(self.of_incarnation(number, Some(&name::numbered(INCARNATIONS, number)))),
            _ => Err(Error::invalid(format!("{number} is not the number of a database; the first one is 1"))),
        }
    }

    /// Returns the number of the newest database of this name, or 1 if there is none. See [`Bucket::incarnation`].
    ///
    /// # Errors
    /// `Io` if the bucket cannot be reached; `Corruption` if the object `lineage` of that database is missing.
    pub fn newest_incarnation(&self) -> Result<u64> {
        if let Some(number) = self.own_incarnation() {
            return Ok(number);
        }
        let mut newest = 1;
        for number in self.incarnations()?.into_iter().skip(1).rev() {
            // A folder in which no writer has begun a lineage does not count.
            let bucket = self.incarnation(number)?;
            if bucket.exists(name::LINEAGE)? || Lineage::lost(&bucket)?.is_some() {
                newest = number;
                break;
            }
        }
        while newest + 1 < NUMBER_LIMIT && self.incarnation(newest + 1)?.exists(name::LINEAGE)? {
            newest += 1;
        }
        Ok(newest)
    }

    /// Lists the numbers of the databases of this name, in order. The first one is among them, also if it is not there.
    pub(crate) fn incarnations(&self) -> Result<Vec<u64>> {
        if let Some(number) = self.own_incarnation() {
            return Ok(vec![number]);
        }
        let listed = self.folders(INCARNATIONS)?;
        let numbers = listed.iter().filter_map(|folder| name::number_of(INCARNATIONS, folder));
        let mut numbers: Vec<u64> = numbers.filter(|&number| number > 1).chain([1]).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns the bucket of the newest database of this name. One that has a number already stays as it is.
    pub(crate) fn newest(&self) -> Result<Self> {
        match self.own_incarnation() {
            Some(_) => Ok(self.clone()),
            None => self.incarnation(self.newest_incarnation()?),
        }
    }

    /// Returns when the newest database of this name was dropped, in milliseconds since 1970, or `None` if it was not
    /// dropped.
    ///
    /// # Errors
    /// `Io` if the bucket cannot be reached; `Corruption` and `Foreign`, naming the object.
    pub fn dropped_ms(&self) -> Result<Option<u64>> {
        let Some(lineage) = Lineage::open(self)? else { return Ok(None) };
        Ok(lineage.tail()?.and_then(|tail| tail.head.dropped_ms))
    }
}
