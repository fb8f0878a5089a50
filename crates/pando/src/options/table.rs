//! The table of options.

use super::{Group, Id, Range, Spec, Unit};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const HOUR_MS: u64 = 3_600_000;

/// All options, ordered by group.
pub const ALL: [Spec; 13] = [
    Spec {
        name: "memory_bytes",
        id: Id::MemoryBytes,
        group: Group::Memory,
        unit: Unit::Bytes,
        default: "a quarter of the machine's memory, or of the control group's limit if that is less",
        range: Range::Memory(MIB),
        cost: "Too little costs disk reads and frequent checkpoints, too much costs the rest of the machine.",
    },
    Spec {
        name: "durability",
        id: Id::Durability,
        group: Group::Durability,
        unit: Unit::Word,
        default: "sync",
        range: Range::Words(&["sync", "buffered", "lazy"]),
        cost: "Too weak costs commits when power or process fail, too strong costs a flush for each.",
    },
    Spec {
        name: "lazy_interval",
        id: Id::LazyInterval,
        group: Group::Durability,
        unit: Unit::Milliseconds,
        default: "200 ms",
        range: Range::Numbers(1, HOUR_MS),
        cost: "Too long costs that much of the newest Lazy commits, too short costs flushes.",
    },
    Spec {
        name: "max_segment_bytes",
        id: Id::MaxSegmentBytes,
        group: Group::Log,
        unit: Unit::Bytes,
        default: "64 MiB; never above 1/16 of memory_bytes (1/64 of a shared budget)",
        range: Range::Numbers(4 * KIB, GIB),
        cost: "Too small costs syncs, too large gives space back late.",
    },
    Spec {
        name: "checkpoint_bytes",
        id: Id::CheckpointBytes,
        group: Group::Log,
        unit: Unit::Bytes,
        default: "1/8 of memory_bytes, at most 128 MiB",
        range: Range::Numbers(KIB, 1024 * GIB),
        cost: "Too small costs write volume, too large costs recovery time.",
    },
    Spec {
        name: "checkpoint_records",
        id: Id::CheckpointRecords,
        group: Group::Log,
        unit: Unit::Records,
        default: "4000000; never above 1/4 of max_log_records",
        range: Range::Numbers(1, u64::MAX),
        cost: "Too few costs write volume, too many costs recovery time.",
    },
    Spec {
        name: "max_log_bytes",
        id: Id::MaxLogBytes,
        group: Group::Log,
        unit: Unit::Bytes,
        default: "1 GiB",
        range: Range::Numbers(64 * KIB, u64::MAX),
        cost: "Too small costs write volume and delays writers, too large costs recovery time and disk.",
    },
    Spec {
        name: "max_log_records",
        id: Id::MaxLogRecords,
        group: Group::Log,
        unit: Unit::Records,
        default: "16000000",
        range: Range::Numbers(100, u64::MAX),
        cost: "Too few costs write volume and delays writers, too many costs recovery time.",
    },
    Spec {
        name: "isolation",
        id: Id::Isolation,
        group: Group::Readers,
        unit: Unit::Word,
        default: "serializable",
        range: Range::Words(&["serializable", "snapshot"]),
        cost: "Too weak allows write skew, too strong costs conflicts over what was only read.",
    },
    Spec {
        name: "max_snapshot_age",
        id: Id::MaxSnapshotAge,
        group: Group::Readers,
        unit: Unit::Milliseconds,
        default: "none",
        range: Range::Numbers(1, 365 * 24 * HOUR_MS),
        cost: "Too short costs long reads, too long leaves a forgotten snapshot unnoticed.",
    },
    Spec {
        name: "max_pinned_space_bytes",
        id: Id::MaxPinnedSpaceBytes,
        group: Group::Readers,
        unit: Unit::Bytes,
        default: "twice what is in use, at least 1 GiB",
        range: Range::Numbers(4 * KIB, u64::MAX),
        cost: "Too little costs long reads, too much costs disk space.",
    },
    Spec {
        name: "page_bytes",
        id: Id::PageBytes,
        group: Group::Storage,
        unit: Unit::Bytes,
        default: "16384, or what is stored",
        range: Range::OneOf(&[4096, 8192, 16384, 32768, 65536]),
        cost: "Too small costs depth and room for long keys, too large costs write volume.",
    },
    Spec {
        name: "read_only",
        id: Id::ReadOnly,
        group: Group::Storage,
        unit: Unit::Word,
        default: "no",
        range: Range::Words(&["no", "yes"]),
        cost: "Needlessly no keeps all other openers out, needlessly yes refuses every write.",
    },
];
