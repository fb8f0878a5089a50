//! Building a whole tree from sorted records. Nodes are filled to the last slot from left to right, each finished node
//! becomes an entry of the level above, and readers see nothing until the root is published.

use crate::insert::{Change, Tree};
use crate::node::{Entry, NodePtr};
use crate::permutation::SLOTS;
use crate::record::{Draft, Record};
use crate::search::Fences;
use base::CommitTs;
use base::keys::head8;

/// The unfinished nodes, one for each level.
struct Builder<'m, 'w, 't> {
    tree: &'t mut Tree<'m, 'w>,
    newest: CommitTs,
    /// The entries of the unfinished nodes, with heads that skip nothing.
    levels: Vec<Vec<Entry<'m>>>,
    /// The first entry of the tree.
    first: Option<Record<'m>>,
}

impl<'m> Tree<'m, '_> {
    /// Fills an empty tree with `changes`, whose keys strictly ascend and which share the timestamp `ts`.
    /// Returns how many there were.
    pub fn build<'a>(&mut self, ts: CommitTs, changes: &mut impl Iterator<Item = Change<'a>>) -> u64 {
        self.build_from(ts, |tree| Some(tree.draft(changes.next()?).finish(ts, None)))
    }

    /// Fills an empty tree with `drafts`, whose keys strictly ascend, and gives each the timestamp `ts`.
    pub fn build_of_drafts(&mut self, ts: CommitTs, drafts: &[Draft<'m>]) {
        let mut drafts = drafts.iter();
        self.build_from(ts, |_| Some(drafts.next()?.finish(ts, None)));
    }

    fn build_from<'w>(
        &'w mut self,
        ts: CommitTs,
        mut next: impl FnMut(&mut Self) -> Option<Record<'m>>,
    ) -> u64 {
        let mut records = 0;
        let mut builder = Builder { tree: self, newest: ts, levels: Vec::new(), first: None };
        while let Some(record) = next(builder.tree) {
            let entry = Entry { head: head8(record.key()), skip: 0, record, child: None };
            builder.first = builder.first.or(Some(entry.record));
            builder.push(0, entry);
            records += 1;
        }
        if let Some(root) = builder.finish() {
            self.root.store(root);
        }
        records
    }
}

impl<'m> Builder<'m, '_, '_> {
    #[inline]
    fn push(&mut self, level: usize, entry: Entry<'m>) {
        match self.levels.get_mut(level) {
            Some(open) if open.len() < SLOTS => open.push(entry),
            _ => self.turn(level, entry),
        }
    }

    /// Finishes the full node at `level`, if there is one, and begins the next with `entry`.
    fn turn(&mut self, level: usize, entry: Entry<'m>) {
        if level == self.levels.len() {
            self.levels.push(Vec::with_capacity(SLOTS));
        } else {
            let node = self.close(level, Some(entry.record));
            let above = Entry { child: Some(node), ..self.levels[level][0] };
            self.levels[level].clear();
            self.push(level + 1, above);
        }
        self.levels[level].push(entry);
    }

    /// Makes the node of the entries at `level`; `next` is the first entry after it.
    fn close(&mut self, level: usize, next: Option<Record<'m>>) -> NodePtr<'m> {
        let entries = &self.levels[level];
        let own = entries[0].record;
        let low = (self.first.map(Record::as_ptr) != Some(own.as_ptr())).then_some(own);
        let skip = Fences { low, high: next }.skip(entries);
        match level {
            0 => self.tree.leaf(entries, self.newest, skip),
            _ => self.tree.inner(entries, level, self.newest, skip),
        }
    }

    /// Finishes the open nodes from the leaf up. Returns the topmost node, which is the root.
    fn finish(mut self) -> Option<NodePtr<'m>> {
        let mut level = 0;
        while level < self.levels.len() {
            let node = self.close(level, None);
            if level + 1 == self.levels.len() {
                return Some(node);
            }
            let above = Entry { child: Some(node), ..self.levels[level][0] };
            self.push(level + 1, above);
            level += 1;
        }
        None
    }
}
