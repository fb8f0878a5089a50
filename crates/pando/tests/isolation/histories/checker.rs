//! Judges a history of list-append transactions: could they have happened one after the other?
//!
//! Every transaction appends elements, each unique in the whole history, to lists, and reads lists. A list shows in
//! which order its versions came, so the dependencies between transactions need no guessing (Kingsbury and Alvaro,
//! "Elle", VLDB 2020, after Adya 1999):
//!
//! 1. *Versions.* The longest committed read of a list is the order of its elements; every other read must be a
//!    prefix of it. Elements that nobody read come last, their order unknown.
//! 2. *Plain faults.* An element of an aborted transaction was read (G1a); a version was read that its writer went
//!    on from (G1b); an acknowledged element is gone (lost update); a transaction did not see its own append.
//! 3. *Edges.* `ww`: the writer of a version to the writer of the next. `wr`: the writer of a version to the one that
//!    read it. `rw`: the reader of a version to the writer of the next. `rt`: one that had been acknowledged to one
//!    that began after that.
//! 4. *Cycles* (Tarjan's strongly connected components, 1972, then the shortest way back from an edge inside one): of
//!    `ww` only: G0; of `ww` and `wr`: G1c; with exactly one `rw`: G-single; with more: G2. The weakest kinds of edges
//!    are tried first, with `rt` edges only after the others.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;

pub type Key = u32;
pub type Element = u64;

/// One thing that a transaction did, in the order in which it did them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Append(Key, Element),
    Read(Key, Vec<Element>),
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Committed,
    Aborted,
}

/// One transaction. Times are taken from one counter of the whole history: before it began, and after its commit
/// was acknowledged.
#[derive(Clone, Debug)]
pub struct Transaction {
    pub ops: Vec<Op>,
    pub end: End,
    pub began: u64,
    pub ended: u64,
}

/// Adya's names for what must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A cycle of writes.
    G0,
    /// What was aborted was read.
    G1a,
    /// What its writer had not finished was read.
    G1b,
    /// A cycle of writes and reads of what was written.
    G1c,
    /// A cycle with one anti-dependency: read skew, lost update.
    GSingle,
    /// A cycle with several anti-dependencies: write skew.
    G2,
    /// Reads of one list that are no prefixes of each other.
    Incompatible,
    /// An acknowledged append that later reads lack.
    Lost,
    /// A transaction that did not see its own append, or saw what it had not yet done.
    Internal,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    pub class: Class,
    /// Whether the order of real time is part of the contradiction.
    pub real_time: bool,
    /// What contradicts what.
    pub story: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let real_time = if self.real_time { " (real time)" } else { "" };
        write!(f, "{:?}{real_time}: {}", self.class, self.story)
    }
}

/// Kinds of edges, as bits, in the order in which `cycles` lets them in.
const WW: u8 = 1;
const WR: u8 = 2;
const RW: u8 = 4;
const RT: u8 = 8;

/// Every anomaly found: all plain faults, and for each class of cycle one example.
pub fn check(history: &[Transaction]) -> Vec<Anomaly> {
    let mut checker = Checker::new(history);
    checker.note_writers();
    checker.check_own_reads();
    checker.order_versions();
    checker.check_reads();
    let graph = checker.graph();
    let mut found = checker.found;
    found.extend(cycles(&graph));
    found
}

/// The classes found, once each.
pub fn classes(history: &[Transaction]) -> BTreeSet<Class> {
    check(history).iter().map(|anomaly| anomaly.class).collect()
}

struct Checker<'h> {
    history: &'h [Transaction],
    /// Who appended an element, and the element that the same transaction appended next to the same list.
    writers: HashMap<Element, (usize, Option<Element>)>,
    /// The order of each list's elements as far as anybody saw it.
    versions: BTreeMap<Key, Vec<Element>>,
    found: Vec<Anomaly>,
}

impl<'h> Checker<'h> {
    fn new(history: &'h [Transaction]) -> Self {
        Checker { history, writers: HashMap::new(), versions: BTreeMap::new(), found: Vec::new() }
    }

    fn fault(&mut self, class: Class, story: String) {
        self.found.push(Anomaly { class, real_time: false, story });
    }

    fn note_writers(&mut self) {
        for (tx, transaction) in self.history.iter().enumerate() {
            let mut last: BTreeMap<Key, Element> = BTreeMap::new();
            for op in &transaction.ops {
                let Op::Append(key, element) = op else { continue };
                let twice = self.writers.insert(*element, (tx, None));
                assert!(twice.is_none(), "element {element} is not unique: the history is malformed");
                if let Some(before) = last.insert(*key, *element) {
                    self.writers.get_mut(&before).expect("noted before").1 = Some(*element);
                }
            }
        }
    }

    /// Within a transaction a list only grows, by its own appends alone.
    fn check_own_reads(&mut self) {
        for (tx, transaction) in self.history.iter().enumerate() {
            let mut known: BTreeMap<Key, Vec<Element>> = BTreeMap::new();
            let mut appended: BTreeMap<Key, Vec<Element>> = BTreeMap::new();
            for op in &transaction.ops {
                match op {
                    Op::Append(key, element) => {
                        appended.entry(*key).or_default().push(*element);
                        if let Some(list) = known.get_mut(key) {
                            list.push(*element);
                        }
                    }
                    Op::Read(key, list) => {
                        let own = appended.get(key).map_or(&[][..], |own| own);
                        let as_known = known.get(key).is_none_or(|known| known == list);
                        if !as_known || !list.ends_with(own) {
                            self.fault(
                                Class::Internal,
                                format!("T{tx} read list {key} as {list:?} after appending {own:?}"),
                            );
                        }
                        known.insert(*key, list.clone());
                    }
                }
            }
        }
    }

    fn committed_reads(&self) -> impl Iterator<Item = (usize, Key, &'h Vec<Element>)> + use<'h> {
        let committed =
            self.history.iter().enumerate().filter(|(_, transaction)| transaction.end == End::Committed);
        committed.flat_map(|(tx, transaction)| {
            transaction.ops.iter().filter_map(move |op| match op {
                Op::Read(key, list) => Some((tx, *key, list)),
                Op::Append(..) => None,
            })
        })
    }

    /// The longest read of a list orders its versions. A committed append that it lacks comes behind it, and must
    /// not have been acknowledged before a reader of that list began (`check_reads`).
    fn order_versions(&mut self) {
        for (_, key, list) in self.committed_reads() {
            let longest = self.versions.entry(key).or_default();
            if list.len() > longest.len() {
                longest.clone_from(list);
            }
        }
    }

    fn check_reads(&mut self) {
        for (tx, key, list) in self.committed_reads() {
            if !self.versions[&key].starts_with(list) {
                let longest = &self.versions[&key];
                let story = format!("T{tx} read list {key} as {list:?}, no prefix of {longest:?}");
                self.fault(Class::Incompatible, story);
            }
            for element in list {
                match self.writers.get(element) {
                    None => self.fault(Class::G1a, format!("T{tx} read {element}, which nobody appended")),
                    Some(&(writer, _)) if self.history[writer].end == End::Aborted && writer != tx => {
                        self.fault(Class::G1a, format!("T{tx} read {element} of T{writer}, which aborted"));
                    }
                    Some(_) => {}
                }
            }
            if let Some(&(writer, Some(next))) = list.last().and_then(|last| self.writers.get(last))
                && writer != tx
            {
                let story = format!("T{tx} read list {key} between {list:?} and {next}, both of T{writer}");
                self.fault(Class::G1b, story);
            }
        }
        self.check_acknowledged();
    }

    /// A list read by somebody who began after an append to it was acknowledged contains that append.
    fn check_acknowledged(&mut self) {
        let mut appends: BTreeMap<Key, Vec<(u64, usize, Element)>> = BTreeMap::new();
        for (tx, transaction) in self.history.iter().enumerate() {
            for op in &transaction.ops {
                if let (Op::Append(key, element), End::Committed) = (op, transaction.end) {
                    appends.entry(*key).or_default().push((transaction.ended, tx, *element));
                }
            }
        }
        appends.values_mut().for_each(|of_key| of_key.sort_unstable());
        // The last reader of each list is enough: earlier ones read prefixes of what it read.
        let mut last: BTreeMap<Key, (u64, usize, &Vec<Element>)> = BTreeMap::new();
        for (tx, key, list) in self.committed_reads() {
            let began = self.history[tx].began;
            if last.get(&key).is_none_or(|(other, ..)| *other < began) {
                last.insert(key, (began, tx, list));
            }
        }
        for (key, (began, reader, list)) in last {
            let present: BTreeSet<_> = list.iter().collect();
            let before = appends.get(&key).into_iter().flatten().take_while(|(ended, ..)| *ended < began);
            for (_, writer, element) in before {
                if !present.contains(element) {
                    let story = format!("T{reader} read list {key} without {element} of T{writer}");
                    self.fault(Class::Lost, story);
                }
            }
        }
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph::new(self.history.len());
        let committed_writer = |element: &Element| {
            self.writers.get(element).map(|writer| writer.0).filter(|tx| self.is_committed(*tx))
        };
        for list in self.versions.values() {
            let writers: Vec<_> = list.iter().filter_map(committed_writer).collect();
            writers.windows(2).for_each(|pair| graph.edge(pair[0], pair[1], WW));
        }
        let unread = self.unread_appends();
        for (tx, key, list) in self.committed_reads() {
            if let Some(writer) = list.last().and_then(committed_writer) {
                graph.edge(writer, tx, WR);
            }
            let order = &self.versions[&key];
            let overwriters = match order.get(list.len()) {
                Some(next) => committed_writer(next).into_iter().collect(),
                // Whatever order the appends that nobody read had, they come behind all that was read.
                None => unread.get(&key).cloned().unwrap_or_default(),
            };
            overwriters.into_iter().for_each(|writer| graph.edge(tx, writer, RW));
        }
        for (key, writers) in &unread {
            let last_read =
                self.versions.get(key).and_then(|order| order.iter().rev().find_map(committed_writer));
            if let Some(last) = last_read {
                writers.iter().for_each(|&writer| graph.edge(last, writer, WW));
            }
        }
        self.add_real_time(&mut graph);
        graph
    }

    fn is_committed(&self, tx: usize) -> bool {
        self.history[tx].end == End::Committed
    }

    /// By list, who appended to it without any committed read showing it.
    fn unread_appends(&self) -> BTreeMap<Key, Vec<usize>> {
        let read: BTreeSet<_> = self.versions.values().flatten().collect();
        let mut unread: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        for (tx, transaction) in self.history.iter().enumerate().filter(|(tx, _)| self.is_committed(*tx)) {
            for op in &transaction.ops {
                if let Op::Append(key, element) = op
                    && !read.contains(element)
                {
                    unread.entry(*key).or_default().push(tx);
                }
            }
        }
        unread
    }

    /// One node for each moment at which somebody was acknowledged, in a chain, keeps these edges linear in number:
    /// a transaction leads to the moment of its end, and the last moment before it began leads to it.
    fn add_real_time(&self, graph: &mut Graph) {
        let committed = || (0..self.history.len()).filter(|tx| self.is_committed(*tx));
        let mut ends: Vec<_> = committed().map(|tx| (self.history[tx].ended, tx)).collect();
        ends.sort_unstable();
        let moments: Vec<_> = ends.iter().map(|_| graph.add_node()).collect();
        moments.windows(2).for_each(|pair| graph.edge(pair[0], pair[1], RT));
        for (&(_, tx), &moment) in ends.iter().zip(&moments) {
            graph.edge(tx, moment, RT);
        }
        for tx in committed() {
            let before = ends.partition_point(|(ended, _)| *ended < self.history[tx].began);
            if before > 0 {
                graph.edge(moments[before - 1], tx, RT);
            }
        }
    }
}

/// Transactions, then moments; edges with the kinds that they are of.
struct Graph {
    transactions: usize,
    edges: Vec<BTreeMap<usize, u8>>,
}

impl Graph {
    fn new(transactions: usize) -> Self {
        Graph { transactions, edges: vec![BTreeMap::new(); transactions] }
    }

    fn add_node(&mut self) -> usize {
        self.edges.push(BTreeMap::new());
        self.edges.len() - 1
    }

    fn edge(&mut self, from: usize, to: usize, kind: u8) {
        if from != to {
            *self.edges[from].entry(to).or_default() |= kind;
        }
    }

    fn next(&self, node: usize, kinds: u8) -> impl Iterator<Item = (usize, u8)> {
        self.edges[node].iter().map(move |(to, kind)| (*to, kind & kinds)).filter(|(_, kind)| *kind != 0)
    }

    /// The strongly connected components of more than one node, over edges of `kinds`, and every node's rank: no edge
    /// leads to a higher one. Tarjan's algorithm with its recursion unrolled, as histories are longer than stacks
    /// are deep.
    fn components(&self, kinds: u8) -> (Vec<Vec<usize>>, Vec<usize>) {
        const UNSEEN: usize = usize::MAX;
        let count = self.edges.len();
        let (mut index, mut low) = (vec![UNSEEN; count], vec![UNSEEN; count]);
        let (mut on_stack, mut stack) = (vec![false; count], Vec::new());
        let (mut next_index, mut components) = (0, Vec::new());
        let (mut ranks, mut rank) = (vec![0; count], 0);
        for root in 0..count {
            if index[root] != UNSEEN {
                continue;
            }
            let mut calls = vec![(root, self.next(root, kinds))];
            while let Some((node, successors)) = calls.last_mut() {
                let node = *node;
                if index[node] == UNSEEN {
                    (index[node], low[node]) = (next_index, next_index);
                    next_index += 1;
                    stack.push(node);
                    on_stack[node] = true;
                }
                match successors.next() {
                    Some((next, _)) if index[next] == UNSEEN => calls.push((next, self.next(next, kinds))),
                    Some((next, _)) if on_stack[next] => low[node] = low[node].min(index[next]),
                    Some(_) => {}
                    None => {
                        calls.pop();
                        if let Some((parent, _)) = calls.last() {
                            low[*parent] = low[*parent].min(low[node]);
                        }
                        if low[node] == index[node] {
                            let start = stack.iter().rposition(|other| *other == node).expect("pushed above");
                            let component = stack.split_off(start);
                            component.iter().for_each(|node| (on_stack[*node], ranks[*node]) = (false, rank));
                            rank += 1;
                            components.extend((component.len() > 1).then_some(component));
                        }
                    }
                }
            }
        }
        (components, ranks)
    }

    /// The shortest way from `from` to `to` over edges of `kinds`, as its nodes. `ranks` are for these edges: what
    /// has sunk below `to` does not lead there.
    fn path(&self, from: usize, to: usize, kinds: u8, ranks: &[usize]) -> Option<Vec<usize>> {
        let mut came_from = HashMap::from([(from, from)]);
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            if node == to {
                let mut path = vec![to];
                while path[path.len() - 1] != from {
                    path.push(came_from[&path[path.len() - 1]]);
                }
                path.reverse();
                return Some(path);
            }
            for (next, _) in self.next(node, kinds).filter(|(next, _)| ranks[*next] >= ranks[to]) {
                came_from.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    node
                });
            }
        }
        None
    }

    /// A cycle in words, given as the way from the telling edge's end back to its start.
    fn tell(&self, path: &[usize], telling: u8, back: u8) -> String {
        let name = |from: usize, to: usize, kinds: u8| {
            let kind = self.edges[from].get(&to).copied().unwrap_or(0) & kinds;
            let names = [(WW, "ww"), (WR, "wr"), (RW, "rw"), (RT, "rt")];
            names.iter().find(|(bit, _)| kind & bit != 0).map_or("?", |name| name.1)
        };
        let show =
            |node: usize| if node < self.transactions { format!("T{node}") } else { "then".to_owned() };
        let mut story = show(path[0]);
        for pair in path.windows(2) {
            story += &format!(" -{}-> {}", name(pair[0], pair[1], back), show(pair[1]));
        }
        story + &format!(" -{}-> {}", name(path[path.len() - 1], path[0], telling), show(path[0]))
    }
}

/// A cycle for each class, if there is one, the ones that need no real time first.
fn cycles(graph: &Graph) -> Vec<Anomaly> {
    let mut found: Vec<Anomaly> = Vec::new();
    for real_time in [0, RT] {
        for (class, telling, weaker) in
            [(Class::G0, WW, WW), (Class::G1c, WR, WW | WR), (Class::GSingle, RW, WW | WR)]
        {
            found.extend(cycle_of(graph, class, telling, weaker | real_time));
        }
        found.extend(cycle_of(graph, Class::G2, RW, WW | WR | RW | real_time));
    }
    // A cycle of one class is one of the next class too: the first name stands, for either kind of order.
    let mut named = BTreeSet::new();
    found.retain(|anomaly| named.insert(anomaly.class));
    if named.contains(&Class::GSingle) {
        found.retain(|anomaly| anomaly.class != Class::G2);
    }
    found
}

/// A cycle of one edge of the kind `telling` and a way back over edges of the kinds `back`.
fn cycle_of(graph: &Graph, class: Class, telling: u8, back: u8) -> Option<Anomaly> {
    let (components, _) = graph.components(telling | back);
    let (_, ranks) = graph.components(back);
    components.iter().find_map(|component| {
        let inside: BTreeSet<_> = component.iter().copied().collect();
        component.iter().find_map(|&from| {
            let mut next = graph.next(from, telling).filter(|(to, _)| inside.contains(to));
            next.find_map(|(to, _)| {
                let path = graph.path(to, from, back, &ranks)?;
                let real_time = path.iter().any(|node| *node >= graph.transactions);
                Some(Anomaly { class, real_time, story: graph.tell(&path, telling, back) })
            })
        })
    })
}
