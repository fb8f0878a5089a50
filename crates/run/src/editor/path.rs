//! The path of the last descent, from the root to the leaf that is being edited.

use crate::descriptor::MAX_HEIGHT;

/// One level of a path: a dirty page and the child that was taken (0 in a leaf).
#[derive(Clone, Copy, Default)]
pub(super) struct Step {
    pub node: u32,
    pub slot: u32,
}

/// The last descent, root first.
#[derive(Default)]
pub(super) struct Path {
    steps: [Step; MAX_HEIGHT],
    valid: bool,
    /// Whether no leaf comes after this one, so that every greater key belongs here.
    pub rightmost: bool,
    /// The leaf of the last descent, which is kept after `valid` was reset, and the place of the last insert into it.
    last_leaf: u32,
    last_insert: Option<usize>,
}

impl Path {
    #[inline]
    pub fn step(&self, depth: usize) -> Step {
        self.steps[depth]
    }

    /// Returns the leaf at the path's end in a tree of `height` levels, or `None` if the tree has changed since.
    #[inline]
    pub fn leaf(&self, height: u8) -> Option<u32> {
        self.valid.then(|| self.steps[usize::from(height) - 1].node)
    }

    /// Records that the descent takes child `slot` of `node` at `depth`.
    #[inline]
    pub fn take(&mut self, depth: usize, node: u32, slot: usize) {
        self.steps[depth] = Step { node, slot: slot as u32 };
    }

    /// Records that the descent ends in `leaf` at `depth`. `rightmost` says that no leaf comes after it.
    #[inline]
    pub fn end(&mut self, depth: usize, leaf: u32, rightmost: bool) {
        self.steps[depth] = Step { node: leaf, slot: 0 };
        self.rightmost = rightmost;
        self.valid = true;
        if self.last_leaf != leaf {
            (self.last_leaf, self.last_insert) = (leaf, None);
        }
    }

    /// Marks the path as invalid: the tree's shape has changed, or a descent begins.
    #[inline]
    pub fn invalidate(&mut self) {
        self.valid = false;
    }

    #[inline]
    pub fn inserted_at(&mut self, at: usize) {
        self.last_insert = Some(at);
    }

    /// Returns whether an insert at `at` goes right after the previous one, or right before it at the leaf's start.
    pub fn is_sequential(&self, leaf: u32, at: usize) -> bool {
        leaf == self.last_leaf
            && self.last_insert.is_some_and(|last| at == last + 1 || (at == 0 && last == 0))
    }
}
