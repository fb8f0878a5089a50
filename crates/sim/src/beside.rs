//! Readers in another process: a follower on the same simulated disk, each state of which is compared with the model's.

use crate::model::State;
use base::env::Random;
use base::{Error, ErrorKind};
use io::sim::SimDisk;
use std::sync::Arc;
use std::time::Duration;
use store::{Follower, Options, Snapshot, Store, beside};

/// The largest number of its snapshots that are kept.
const SNAPSHOTS: usize = 3;

/// Follows the store of one session, from time to time.
pub struct Follow {
    random: Random,
    options: Options,
    open: Option<Open>,
    /// The number of times that it caught up.
    pub looks: u64,
}

struct Open {
    store: Arc<Store>,
    follower: Follower,
    snapshots: Vec<(Snapshot, State)>,
    last: u64,
}

impl Follow {
    /// Creates a follower for the run of `seed`.
    pub fn new(seed: u64, options: &Options) -> Self {
        let random = Random::seeded(seed ^ 0x6265_7369_6465_5f5f);
        let options = Options { read_only: true, ..options.clone() };
        Follow { random, options, open: None, looks: 0 }
    }

    /// Takes one turn: does nothing, opens, looks, or closes. `writer` is the followed store; `state_at` returns the
    /// state after each commit.
    ///
    /// # Errors
    /// A description of what is wrong.
    pub fn turn(
        &mut self,
        disk: &SimDisk,
        writer: &Arc<Store>,
        turn: u64,
        state_at: impl Fn(u64) -> Option<State>,
    ) -> Result<(), String> {
        let looked = match &mut self.open {
            None if self.random.chance(1, 15) => self.begin(disk),
            None => Ok(()),
            Some(_) if self.random.chance(1, 60) => {
                self.open = None;
                Ok(())
            }
            Some(open) if self.random.chance(1, 4) => {
                self.looks += 1;
                open.look(&mut self.random, writer, turn, state_at)
            }
            Some(open) => open.look_back(&mut self.random),
        };
        // After an injected fault a reader may fail, as every user of the disk may.
        looked.or_else(|wrong| match wrong {
            Trouble::Engine(error) if disk.faults_hit() > 0 && error.kind() != ErrorKind::Corruption => {
                self.open = None;
                Ok(())
            }
            wrong => Err(wrong.into()),
        })
    }

    fn begin(&mut self, disk: &SimDisk) -> Result<(), Trouble> {
        match beside::open_as(disk.dir(), &self.options, Random::seeded(self.random.next_u64())) {
            Ok((store, follower)) => {
                self.open = Some(Open { store, follower, snapshots: Vec::new(), last: 0 });
                Ok(())
            }
            // Files cannot be mapped here, or this run admits no readers.
            Err(error) if error.kind() == ErrorKind::Locked => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends with the session. The next session's disk has what a killed reader leaves.
    pub fn give_up(&mut self) {
        self.open = None;
    }
}

impl Open {
    fn look(
        &mut self,
        random: &mut Random,
        writer: &Arc<Store>,
        turn: u64,
        state_at: impl Fn(u64) -> Option<State>,
    ) -> Result<(), Trouble> {
        self.follower.catch_up()?;
        self.follower.tick(Duration::from_millis(turn))?;
        let snapshot = self.store.snapshot()?;
        let (ts, shown) = (snapshot.ts().0, writer.snapshot()?.ts().0);
        if ts > shown || ts < self.last {
            return Err(Trouble::Wrong(format!("a reader shows commit {ts} after {} of {shown}", self.last)));
        }
        self.last = ts;
        let state = state_at(ts).ok_or_else(|| Trouble::Wrong(format!("commit {ts} was not made")))?;
        state
            .check(&snapshot)
            .map_err(|wrong| Trouble::Wrong(format!("beside, as of commit {ts}: {wrong}")))?;
        if self.snapshots.len() < SNAPSHOTS && random.chance(1, 3) {
            self.snapshots.push((snapshot, state));
        }
        Ok(())
    }

    fn look_back(&mut self, random: &mut Random) -> Result<(), Trouble> {
        if self.snapshots.is_empty() || !random.chance(1, 4) {
            return Ok(());
        }
        let at = random.below(self.snapshots.len() as u64) as usize;
        let (snapshot, state) = &self.snapshots[at];
        let ts = snapshot.ts().0;
        match snapshot.tables() {
            Err(error) if error.kind() == ErrorKind::SnapshotTooOld => {}
            _ => state
                .check(snapshot)
                .map_err(|wrong| Trouble::Wrong(format!("beside, of commit {ts}: {wrong}")))?,
        }
        if random.chance(1, 2) {
            self.snapshots.swap_remove(at);
        }
        Ok(())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.snapshots.clear();
        // This releases what this thread still holds of the store.
        let _ = self.store.close();
    }
}

/// Why a reader, or a consumer, could not do what it should.
pub(crate) enum Trouble {
    /// The engine returned an error.
    Engine(Error),
    /// What was read differs from the model.
    Wrong(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Engine(error)
    }
}

impl From<Trouble> for String {
    fn from(trouble: Trouble) -> String {
        match trouble {
            Trouble::Engine(error) => format!("reading beside the writer: {error:?}"),
            Trouble::Wrong(wrong) => wrong,
        }
    }
}
