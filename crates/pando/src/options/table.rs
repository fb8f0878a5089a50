//! The table of options.

use super::{Group, Id, Range, Spec, Unit};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const HOUR_MS: u64 = 3_600_000;

/// All options, ordered by group.
pub const ALL: [Spec; 14] = [
    Spec {
        name: "memory_bytes",
        id: Id::MemoryBytes,
        group: Group::Memory,
        unit: Unit::Bytes,
        default: "a quarter of the machine's memory, or of the control group's limit if that is less",
        range: Range::Memory(MIB),
        cost: "Too low a value causes more disk reads and checkpoints; too high a value takes memory \
               from other programs.",
    },
    Spec {
        name: "durability",
        id: Id::Durability,
        group: Group::Durability,
        unit: Unit::Word,
        default: "sync",
        range: Range::Words(&["sync", "buffered", "lazy"]),
        cost: "Too weak a durability can lose commits after a crash; a stronger one than needed waits \
               for a flush at each commit.",
    },
    Spec {
        name: "lazy_interval",
        id: Id::LazyInterval,
        group: Group::Durability,
        unit: Unit::Milliseconds,
        default: "200 ms",
        range: Range::Numbers(1, HOUR_MS),
        cost: "A crash can lose Lazy commits of this period; a short interval flushes more often.",
    },
    Spec {
        name: "max_segment_bytes",
        id: Id::MaxSegmentBytes,
        group: Group::Log,
        unit: Unit::Bytes,
        default: "64 MiB; never above 1/16 of memory_bytes (1/64 of a shared budget)",
        range: Range::Numbers(4 * KIB, GIB),
        cost: "Small segments need more syncs; large ones free log space later.",
    },
    Spec {
        name: "checkpoint_bytes",
        id: Id::CheckpointBytes,
        group: Group::Log,
        unit: Unit::Bytes,
        default: "1/8 of memory_bytes, at most 128 MiB",
        range: Range::Numbers(KIB, 1024 * GIB),
        cost: "A low value writes pages more often; a high value lengthens recovery.",
    },
    Spec {
        name: "checkpoint_records",
        id: Id::CheckpointRecords,
        group: Group::Log,
        unit: Unit::Records,
        default: "4000000; never above 1/4 of max_log_records",
        range: Range::Numbers(1, u64::MAX),
        cost: "A low value writes pages more often; a high value lengthens recovery.",
    },
    Spec {
        name: "max_log_bytes",
        id: Id::MaxLogBytes,
        group: Group::Log,
        unit: Unit::Bytes,
        default: "1 GiB",
        range: Range::Numbers(64 * KIB, u64::MAX),
        cost: "A low value writes pages more often and delays writers; a high value lengthens recovery \
               and takes disk space.",
    },
    Spec {
        name: "max_log_records",
        id: Id::MaxLogRecords,
        group: Group::Log,
        unit: Unit::Records,
        default: "16000000",
        range: Range::Numbers(100, u64::MAX),
        cost: "A low value writes pages more often and delays writers; a high value lengthens recovery.",
    },
    Spec {
        name: "isolation",
        id: Id::Isolation,
        group: Group::Readers,
        unit: Unit::Word,
        default: "serializable",
        range: Range::Words(&["serializable", "snapshot"]),
        cost: "Snapshot isolation allows write skew; serializable isolation has conflicts over keys \
               that were only read.",
    },
    Spec {
        name: "max_snapshot_age",
        id: Id::MaxSnapshotAge,
        group: Group::Readers,
        unit: Unit::Milliseconds,
        default: "none",
        range: Range::Numbers(1, 365 * 24 * HOUR_MS),
        cost: "A short age makes long reads fail; a long one finds a forgotten snapshot late.",
    },
    Spec {
        name: "max_pinned_space_bytes",
        id: Id::MaxPinnedSpaceBytes,
        group: Group::Readers,
        unit: Unit::Bytes,
        default: "twice what is in use, at least 1 GiB",
        range: Range::Numbers(4 * KIB, u64::MAX),
        cost: "A low value makes long reads fail; a high value lets them take more disk space.",
    },
    Spec {
        name: "max_changes_bytes",
        id: Id::MaxChangesBytes,
        group: Group::Readers,
        unit: Unit::Bytes,
        default: "1 GiB",
        range: Range::Numbers(64 * KIB, u64::MAX),
        cost: "A low value makes late readers of changes begin again; a high one takes disk space.",
    },
    Spec {
        name: "page_bytes",
        id: Id::PageBytes,
        group: Group::Storage,
        unit: Unit::Bytes,
        default: "16384, or what is stored",
        range: Range::OneOf(&[4096, 8192, 16384, 32768, 65536]),
        cost: "Small pages make trees deeper and keys shorter; large pages write more bytes for each change.",
    },
    Spec {
        name: "read_only",
        id: Id::ReadOnly,
        group: Group::Storage,
        unit: Unit::Word,
        default: "no",
        range: Range::Words(&["no", "yes"]),
        cost: "Set it when several processes must read the same database; a read-only database rejects \
               every write.",
    },
];
