//! Writers that take over from one another at random, over a store that loses, delays, duplicates and reorders
//! requests: every acknowledged commit is in the lineage, and every writer that was replaced ends as `Fenced`.

use super::faulty::Faulty;
use super::model::{History, Model, encoded};
use crate::bases::Draft;
use crate::candidate::Candidate;
use crate::follower::Follower;
use crate::gather::{Batch, ChangeWriter};
use crate::lineage::Lineage;
use crate::name;
use crate::options::Options;
use crate::parts::PartWriter;
use crate::restore::{self, Goal};
use crate::retention::Retention;
use crate::source::{Source as _, Stamp};
use crate::writer::Writer;
use base::env::Random;
use base::{Error, ErrorKind, Result};
use pando::Identity;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Node {
    pub(super) model: Model,
    pub(super) writer: Writer,
    /// Commits of this node that were shipped and acknowledged.
    pub(super) acknowledged: u64,
    pub(super) fenced: bool,
    pub(super) retention: Retention,
}

struct World {
    store: Arc<Faulty>,
    random: Random,
    nodes: Vec<Node>,
    /// Commit, time and bytes of everything that was acknowledged.
    promised: Vec<(u64, (u64, Vec<u8>))>,
    clock: u64,
    forks: u32,
    replicas: Vec<Replica>,
}

struct Replica {
    follower: Follower,
    history: History,
}

/// What went wrong, as the test says it.
type Verdict = std::result::Result<(), String>;

pub(super) fn take_over(store: &Arc<Faulty>, model: &Model) -> Result<Writer> {
    let (identity, origin, newest) = (model.identity()?, model.origin()?, model.newest()?);
    let checksum = |_| Ok(None);
    let candidate = Candidate { identity, origin, newest, follows: false, checksum: &checksum };
    Writer::take_over(&store.bucket(), &candidate)
}

/// Repeats what fails in passing.
fn insist<T>(mut work: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match work() {
            Err(error) if error.kind() == ErrorKind::Io => {}
            done => return done,
        }
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let (store, random) = (Faulty::new(seed ^ 0x5eed), Random::seeded(seed));
        World {
            store,
            random,
            nodes: Vec::new(),
            promised: Vec::new(),
            clock: 0,
            forks: 1,
            replicas: Vec::new(),
        }
    }

    fn restore(&self) -> Result<(Lineage, History)> {
        let lineage = Lineage::expect(&self.store.bucket())?;
        let mut history = History::default();
        restore::run(&lineage, Goal::Newest, &mut history, &mut |_| {})?;
        Ok((lineage, history))
    }

    fn step(&mut self) -> Verdict {
        match self.random.below(26) {
            20..24 => self.follow(),
            24 => self.promote(),
            0 => self.replace(),
            1 => self.restart(),
            2 => self.rebase(),
            _ => self.write(),
        }
    }

    /// A node that nobody can stop any more stays where it is, and a new one takes over.
    fn replace(&mut self) -> Verdict {
        if self.nodes.is_empty() {
            let model = Model::new(1);
            return self.begin(model);
        }
        self.forks += 1;
        let fork = self.forks;
        let (lineage, history) = insist(|| self.restore()).map_err(|error| format!("restore: {error}"))?;
        self.begin(Model::restored(fork, history, lineage.id))
    }

    fn begin(&mut self, model: Model) -> Verdict {
        match insist(|| take_over(&self.store, &model)) {
            Ok(writer) => {
                let (acknowledged, retention) = (writer.tail().last_commit, Retention::default());
                let mut node = Node { model, writer, acknowledged, fenced: false, retention };
                insist(|| leap_if_needed(&mut node)).map_err(|error| format!("first base: {error}"))?;
                self.nodes.push(node);
                Ok(())
            }
            // Another one shipped between its restore and its fence.
            Err(error) if matches!(error.kind(), ErrorKind::Mismatch | ErrorKind::Fenced) => Ok(()),
            Err(error) => Err(format!("take over: {error}")),
        }
    }

    /// The process of a node is killed, and begins again with what is on its disk.
    fn restart(&mut self) -> Verdict {
        let Some(at) = self.pick() else { return Ok(()) };
        let node = self.nodes.swap_remove(at);
        self.begin(node.model)
    }

    fn pick(&mut self) -> Option<usize> {
        (!self.nodes.is_empty()).then(|| self.random.below(self.nodes.len() as u64) as usize)
    }

    /// A base of what a node has, which the log may not have; and what it makes superfluous goes.
    fn rebase(&mut self) -> Verdict {
        let Some(at) = self.pick() else { return Ok(()) };
        let node = &mut self.nodes[at];
        if node.fenced {
            return Ok(());
        }
        if node.writer.is_pending() {
            // As if the outcome was known by now.
            return self.write();
        }
        let options = Options { keep_bases: 1, keep_for: Duration::ZERO, ..Options::default() };
        let done = insist(|| {
            let draft = draft(node)?;
            let tail = *node.writer.tail();
            match node.writer.publish(&draft.manifest(tail.number, tail.hash, None)) {
                // The same commit again: there is one already. Or the log does not have it.
                Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Invalid) => {
                    return Ok(());
                }
                done => done?,
            }
            node.retention.begin(&node.writer, &options, u64::MAX)?;
            delete_all(node)
        });
        done.map_err(|error| format!("base: {error}"))
    }

    /// A commit, and an attempt to ship what is not shipped.
    fn write(&mut self) -> Verdict {
        let Some(at) = self.pick() else { return self.replace() };
        self.clock += 1;
        let node = &mut self.nodes[at];
        if node.fenced {
            return Ok(());
        }
        node.model.commit(self.clock, format!("{} at {}", self.clock, node.writer.epoch()));
        match ship(node) {
            Ok(()) => self.acknowledge(at),
            Err(error) if error.kind() == ErrorKind::Io => {}
            Err(error) if error.kind() == ErrorKind::Fenced => node.fenced = true,
            Err(error) => return Err(format!("ship: {error}")),
        }
        Ok(())
    }

    fn acknowledge(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let (from, to) = (node.acknowledged as usize, node.writer.tail().last_commit as usize);
        let history = node.model.history();
        let new = history.0[from..to].iter().enumerate();
        self.promised.extend(new.map(|(index, change)| ((from + index + 1) as u64, change.clone())));
        node.acknowledged = to as u64;
    }

    fn new_replica(&self) -> Result<Replica> {
        let (lineage, history) = insist(|| self.restore())?;
        Ok(Replica { follower: Follower::of(lineage), history })
    }

    /// A replica begins, or goes on a little.
    fn follow(&mut self) -> Verdict {
        if self.replicas.is_empty() || (self.replicas.len() < 3 && self.random.chance(1, 4)) {
            let replica = self.new_replica().map_err(|error| format!("replica: {error}"))?;
            self.replicas.push(replica);
        }
        let at = self.random.below(self.replicas.len() as u64) as usize;
        for _ in 0..self.random.below(30) {
            self.advance(at).map_err(|error| format!("replica: {error}"))?;
        }
        let history = &self.replicas[at].history;
        let of_it = self.promised.iter().filter(|(commit, _)| *commit as usize <= history.0.len());
        for (commit, change) in of_it {
            if history.0[*commit as usize - 1] != *change {
                return Err(format!("a replica has another commit {commit} than {change:?}"));
            }
        }
        Ok(())
    }

    /// One attempt of a replica. Returns whether it moved.
    fn advance(&mut self, at: usize) -> Result<bool> {
        let Replica { follower, history } = &mut self.replicas[at];
        let commit = history.0.len() as u64;
        match follower.advance_into(history, commit) {
            Ok(advance) => Ok(advance.has_moved),
            Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Conflict) => Ok(true),
            Err(error) if error.kind() == ErrorKind::TooOld => {
                self.replicas[at] = self.new_replica()?;
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// A replica takes over.
    fn promote(&mut self) -> Verdict {
        let Some(Replica { mut follower, mut history }) = self.replicas.pop() else { return Ok(()) };
        self.forks += 1;
        let identity = Identity { database: 77, fork: self.forks };
        let taken = insist(|| {
            let commit = history.0.len() as u64;
            follower.take_over_into(&mut history, identity, commit)
        });
        match taken {
            Ok(_) => {
                let lineage = insist(|| Lineage::expect(&self.store.bucket()));
                let id = lineage.map_err(|error| format!("promote: {error}"))?.id;
                self.begin(Model::restored(identity.fork, history, id))
            }
            // Another one takes over, or its next commit is gone.
            Err(error)
                if matches!(error.kind(), ErrorKind::Fenced | ErrorKind::TooOld | ErrorKind::Conflict) =>
            {
                Ok(())
            }
            Err(error) => Err(format!("promote: {error}")),
        }
    }

    /// Everything under way arrives; then the lineage must have what was promised, and one writer at most.
    fn finish(mut self) -> Verdict {
        self.store.deliver_all();
        self.store.set_faults(0);
        for at in 0..self.nodes.len() {
            if !self.nodes[at].fenced {
                let (time, node) = (u64::MAX, &mut self.nodes[at]);
                node.model.commit(time, "the end");
                match ship(node) {
                    Ok(()) => self.acknowledge(at),
                    Err(error) if error.kind() == ErrorKind::Fenced => node.fenced = true,
                    Err(error) => return Err(format!("the end: {error}")),
                }
            }
        }
        let alive = self.nodes.iter().filter(|node| !node.fenced).count();
        if alive > 1 {
            return Err(format!("{alive} writers believe that they are the only one"));
        }
        let (_, history) = self.restore().map_err(|error| format!("the last restore: {error}"))?;
        for (commit, change) in &self.promised {
            if history.0.get(*commit as usize - 1) != Some(change) {
                return Err(format!("commit {commit} was acknowledged as {change:?}, and is lost"));
            }
        }
        for at in 0..self.replicas.len() {
            // It looks for what will never be there at each twentieth attempt.
            let mut still = 0;
            while still < 40 {
                let has_moved = self.advance(at).map_err(|error| format!("replica: {error}"))?;
                still = if has_moved { 0 } else { still + 1 };
            }
            let (reached, newest) = (self.replicas[at].history.0.len(), history.0.len());
            if self.replicas[at].history != history {
                return Err(format!("a replica ends at commit {reached}, the lineage at {newest}"));
            }
        }
        Ok(())
    }
}

pub(super) fn draft(node: &Node) -> Result<Draft> {
    let mut parts = PartWriter::new(&node.writer.lineage.bucket, name::BASE_PARTS.to_owned());
    let commit = node.model.backup(&mut parts)?;
    let time_ms = node.model.history().0.last().map_or(0, |change| change.0);
    Ok(Draft { commit, time_ms, parts: parts.finish()? })
}

fn delete_all(node: &mut Node) -> Result<()> {
    while node.retention.step(&node.writer)? {}
    Ok(())
}

pub(super) fn leap_if_needed(node: &mut Node) -> Result<()> {
    if !node.writer.lineage.bases()?.is_empty() {
        return Ok(());
    }
    let draft = draft(node)?;
    let after = node.writer.tail().last_commit;
    let (number, hash) = node.writer.prepare_rebase(draft.commit, draft.time_ms);
    let manifest = draft.manifest(number, hash, Some(after));
    insist(|| node.writer.publish(&manifest))?;
    match insist(|| node.writer.settle()) {
        // Found out soon enough.
        Err(error) if error.kind() == ErrorKind::Fenced => node.fenced = true,
        done => drop(done?),
    }
    Ok(())
}

/// One attempt.
pub(super) fn ship(node: &mut Node) -> Result<()> {
    node.writer.settle()?;
    let from = node.writer.tail().last_commit as usize;
    let history = node.model.history();
    let mut batch = None;
    for (index, (time_ms, bytes)) in history.0.iter().enumerate().skip(from) {
        let bucket = node.writer.lineage.bucket.clone();
        let mut out = ChangeWriter::new(&bucket, node.writer.next_number());
        let stamp = Stamp { commit: index as u64 + 1, time_ms: *time_ms };
        out.write_all(&encoded(stamp.commit, *time_ms, bytes)).map_err(|error| Error::io("write", error))?;
        Batch::add(&mut batch, stamp, out.finish()?);
    }
    if let Some(batch) = batch {
        node.writer.prepare(batch)?;
        node.writer.settle()?;
    }
    Ok(())
}

fn run(seed: u64, ignores_conditions: bool) -> Verdict {
    let mut world = World::new(seed);
    world.replace()?;
    if ignores_conditions {
        world.store.ignore_conditions(false);
    }
    world.store.set_faults(world.random.below(40));
    for _ in 0..120 {
        world.step()?;
    }
    world.finish()
}

/// `PANDO_SHIP_SEEDS=40000..60000` runs these seeds instead of the first 150, so that many can be run in parts.
#[test]
fn no_acknowledged_commit_is_lost_and_the_loser_is_fenced() {
    let asked = std::env::var("PANDO_SHIP_SEEDS").unwrap_or_else(|_| "0..150".to_owned());
    let (first, end) = asked.split_once("..").expect("two numbers, as in 0..150");
    for seed in first.parse().unwrap()..end.parse().unwrap() {
        if let Err(what) = run(seed, false) {
            panic!("seed {seed}: {what}");
        }
    }
}

#[test]
fn a_store_that_ignores_conditions_is_noticed_by_that_test() {
    let failed =
        (0..20).filter(|&seed| std::panic::catch_unwind(|| run(seed, true)).is_ok_and(|v| v.is_err()));
    assert!(failed.count() > 10, "without conditional puts nothing can be promised");
}

#[test]
fn a_store_that_ignores_conditions_is_refused() {
    let store = Faulty::new(1);
    store.ignore_conditions(true);
    let error = take_over(&store, &Model::new(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("If-None-Match"), "{error}");
}

#[test]
fn a_number_that_is_free_because_it_was_deleted_proves_nothing() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let writer = take_over(&store, &model).unwrap();
    let mut old = Node {
        model: model.clone(),
        writer,
        acknowledged: 0,
        fenced: false,
        retention: Retention::default(),
    };
    leap_if_needed(&mut old).unwrap();
    model.commit(1, "first");
    ship(&mut old).unwrap();
    let lineage = Lineage::expect(&store.bucket()).unwrap();
    let copy = Model::restored(2, model.history(), lineage.id);
    // The new writer has found the first free number. Before it writes its fence there, the old one goes on, and
    // deletes what it wrote under that number.
    store.before_put("log/", move || {
        for time in 2..5 {
            old.model.commit(time, "more");
            ship(&mut old).unwrap();
        }
        let (draft, tail) = (draft(&old).unwrap(), *old.writer.tail());
        old.writer.publish(&draft.manifest(tail.number, tail.hash, None)).unwrap();
        let options = Options { keep_bases: 1, keep_for: Duration::ZERO, ..Options::default() };
        old.retention.begin(&old.writer, &options, u64::MAX).unwrap();
        delete_all(&mut old).unwrap();
    });
    match take_over(&store, &copy) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Mismatch, "seed 0: {error}"),
        Ok(_) => panic!("seed 0: two writers believe that they are the only one"),
    }
    assert_eq!(restore::run(&lineage, Goal::Newest, &mut History::default(), &mut |_| {}).unwrap().commit, 4);
}

#[test]
fn a_base_that_was_never_finished_is_not_kept_in_place_of_another() {
    let (store, model) = (Faulty::new(1), Model::new(1));
    let node = |model: Model, writer| Node {
        model,
        writer,
        acknowledged: 0,
        fenced: false,
        retention: Retention::default(),
    };
    let mut old = node(model.clone(), take_over(&store, &model).unwrap());
    leap_if_needed(&mut old).unwrap();
    model.commit(1, "first");
    ship(&mut old).unwrap();
    // Before the old writer can write the segment after its second base, another one takes over.
    let lineage = Lineage::expect(&store.bucket()).unwrap();
    let copy = Model::restored(2, model.history(), lineage.id);
    let mut new = node(copy.clone(), take_over(&store, &copy).unwrap());
    model.commit(2, "of the old one");
    let draft = draft(&old).unwrap();
    let (number, hash) = old.writer.prepare_rebase(draft.commit, draft.time_ms);
    old.writer.publish(&draft.manifest(number, hash, Some(1))).unwrap();
    assert_eq!(old.writer.settle().unwrap_err().kind(), ErrorKind::Fenced);
    copy.commit(2, "of the new one");
    ship(&mut new).unwrap();
    let options = Options { keep_bases: 1, keep_for: Duration::ZERO, ..Options::default() };
    new.retention.begin(&new.writer, &options, u64::MAX).unwrap();
    delete_all(&mut new).unwrap();
    let mut history = History::default();
    restore::run(&lineage, Goal::Newest, &mut history, &mut |_| {}).unwrap();
    assert_eq!(history, copy.history());
}
