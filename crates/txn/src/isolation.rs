//! The guarantees of a transaction, against other transactions and against failures.

/// The guarantee of a read-write transaction against concurrent transactions. Read-only snapshots see one moment and
/// never conflict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Transactions take effect as if they had run one after another, in commit order. Every key and every range that
    /// was read must be unchanged at commit (backward validation, Kung and Robinson 1981), so there are neither
    /// phantoms nor write skew.
    #[default]
    Serializable,
    /// Snapshot isolation: of two transactions that write the same key, the first to commit wins. Reads are not
    /// validated, so write skew is possible (Berenson et al. 1995, A5B).
    Snapshot,
}

/// The failures that a commit survives after it was acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// A loss of power. It costs one flush, which concurrent commits share.
    #[default]
    Sync,
    /// A killed process, but not a loss of power.
    Buffered,
    /// Nothing at first: the commit is written and synced within the lazy interval, and can be lost until then.
    Lazy,
}
