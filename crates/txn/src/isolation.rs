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
    /// An acknowledged commit survives a loss of power. It costs one flush, which concurrent commits share.
    #[default]
    Sync,
    /// An acknowledged commit survives a killed process. A loss of power can undo the newest commits.
    Buffered,
    /// A commit is written and synced within the lazy interval. Until then a crash of the process can undo it.
    Lazy,
}
