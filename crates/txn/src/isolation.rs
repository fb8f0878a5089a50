//! What a transaction is promised: against other transactions, and against failures.

/// What a read-write transaction is promised against the transactions that run beside it. Read-only snapshots
/// need no choice: they see one moment and never conflict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// As if the transactions had run one after another, in commit order. Everything that was read, keys and
    /// ranges alike, must be unchanged at commit (backward validation, Kung and Robinson 1981), so there are
    /// neither phantoms nor write skew.
    #[default]
    Serializable,
    /// Snapshot isolation: of two transactions that write the same key, the first to commit wins. Reads are not
    /// validated, so write skew is possible (Berenson et al. 1995, A5B).
    Snapshot,
}

/// What a commit survives once it was acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Power loss. Costs one flush, shared with whoever commits at the same time.
    #[default]
    Sync,
    /// A killed process, not power loss.
    Buffered,
    /// Nothing at once: written and synced within the stated interval, and lost up to that when killed.
    Lazy,
}
