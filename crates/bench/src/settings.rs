//! The flags that all workloads share.

use std::path::PathBuf;

/// How the workloads run. What is not given is each workload's own default.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// How many records, keys or rows to use: 1000000, 500k, 10M [default: each workload's own]
    #[arg(long, value_parser = parse_count)]
    pub n: Option<u64>,
    /// How many threads to use; a list runs each in turn: 1,2,4,8 [default: each workload's own]
    #[arg(long, value_delimiter = ',', value_parser = parse_threads)]
    pub threads: Option<Vec<usize>>,
    /// What each commit survives [default: each workload's own]
    #[arg(long, value_enum)]
    pub durability: Option<Durability>,
    /// Page size in bytes: 4KiB to 64KiB [default: each workload's own]
    #[arg(long, value_parser = parse_bytes)]
    pub page_size: Option<usize>,
    /// Memory of the database: 32MiB, 1GiB [default: each workload's own]
    #[arg(long, value_parser = parse_bytes)]
    pub memory: Option<usize>,
    /// Layout of the tables, btree or lsm [default: btree]
    #[arg(long, value_name = "LAYOUT")]
    pub layout: Option<pando::Layout>,
    /// Compression of the pages of LSM tables, lz4 or none [default: none]
    #[arg(long, value_name = "COMPRESSION")]
    pub compression: Option<pando::Compression>,
    /// kv-load: use values of words and numbers, as applications store them, instead of random bytes
    #[arg(long)]
    pub text: bool,
    /// Seed of every random choice
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many rows to write in each transaction [default: each workload's own]
    #[arg(long, value_parser = parse_count)]
    pub batch_size: Option<u64>,
    /// How many transactions each thread runs (write-throughput), reads in total (read-start, point-get), or PUTs in
    /// the long case (http-kv) [default: each workload's own]
    #[arg(short, long, value_parser = parse_count)]
    pub iterations: Option<u64>,
    /// How long the writer runs (steady) or each case runs (http-kv), in seconds, such as 10 or 0.5 [default: each
    /// workload's own]
    #[arg(long, value_parser = parse_seconds)]
    pub seconds: Option<f64>,
    /// ceilings: how many rows the one transaction writes [default: the workload's own]
    #[arg(long, value_parser = parse_count)]
    pub rows: Option<u64>,
    /// Size of a value in bytes, at least 8 [default: each workload's own]
    #[arg(long, value_parser = parse_bytes)]
    pub value_bytes: Option<usize>,
    /// Write through transactions, or directly through the run's editor, which has no log [default: each workload's
    /// own]
    #[arg(long, value_enum)]
    pub path: Option<Path>,
    /// btree-insert, write-throughput: write bytes, typed rows, or SQL
    #[arg(long, value_enum, default_value_t = Api::Bytes)]
    pub api: Api,
    /// btree-insert: which transactions to measure [default: all three]
    #[arg(long, value_enum)]
    pub txn: Option<Txn>,
    /// write-throughput: which form to measure [default: both]
    #[arg(long, value_enum)]
    pub connections: Option<Connections>,
    /// write-throughput: microseconds of other work inside each transaction
    #[arg(long, default_value_t = 0)]
    pub work_us: u64,
    /// ycsb, http-kv: start this many operations a second, each at its scheduled time [default: ycsb as fast as
    /// possible; http-kv at a rate that the server keeps up with]
    #[arg(long, value_parser = parse_count)]
    pub rate: Option<u64>,
    /// write-throughput: write 10 million rows (or --n) across at least 10 checkpoints
    #[arg(long)]
    pub long: bool,
    /// http-kv: the program that serves [default: the running program]
    #[arg(long, value_name = "PROGRAM")]
    pub server: Option<PathBuf>,
    /// Create the databases in this directory; they are removed afterwards [default: the system's temporary
    /// directory]
    #[arg(long)]
    pub dir: Option<PathBuf>,
}

/// What a commit survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Durability {
    /// Each commit survives a loss of power
    Sync,
    /// Each commit survives a killed process
    Buffered,
    /// Each commit is synced a moment later
    Lazy,
}

/// Which way the records take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Path {
    /// Through transactions: log and memtable, then a checkpoint
    Txn,
    /// Through the run's editor only
    Editor,
}

/// The API that a workload writes through
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Api {
    /// Keys and values as bytes
    Bytes,
    /// Rows of a typed table
    Rows,
    /// Rows of a typed table through SQL, with prepared statements
    #[cfg(feature = "sql")]
    Sql,
}

impl Api {
    /// Returns the suffix of the names of cases; it is empty for bytes.
    pub fn suffix(self) -> &'static str {
        match self {
            Api::Bytes => "",
            Api::Rows => ", rows",
            #[cfg(feature = "sql")]
            Api::Sql => ", sql",
        }
    }
}

/// The transactions of `btree-insert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Txn {
    /// No transaction and no log: writes go directly into the tree
    None,
    /// One transaction for all inserts
    Single,
    /// One transaction for each insert; buffered unless --durability is given
    PerInsert,
}

/// The two forms of `write-throughput`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Connections {
    /// One handle for each transaction, 1,000 of them open at once on each thread
    PerTransaction,
    /// One handle for each thread
    LongLived,
}

impl Durability {
    /// Returns the name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Sync => "sync",
            Durability::Buffered => "buffered",
            Durability::Lazy => "lazy",
        }
    }
}

impl From<Durability> for pando::Durability {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Sync => pando::Durability::Sync,
            Durability::Buffered => pando::Durability::Buffered,
            Durability::Lazy => pando::Durability::Lazy,
        }
    }
}

impl Settings {
    /// Returns the options of the workloads' tables.
    pub fn table_options(&self) -> pando::TableOptions {
        pando::TableOptions::with_layout(self.layout.unwrap_or_default())
            .compression(self.compression.unwrap_or_default())
    }

    /// Returns the flags that distinguish the run from others, as on the command line. Threads and durability are in
    /// every row.
    pub(crate) fn describe(&self) -> String {
        let flags = [
            ("n", self.n.map(|n| n.to_string())),
            ("page-size", self.page_size.map(|bytes| bytes.to_string())),
            ("memory", self.memory.map(|bytes| bytes.to_string())),
            ("layout", self.layout.map(|layout| layout.to_string())),
            ("compression", self.compression.map(|compression| compression.to_string())),
            ("text", self.text.then(String::new)),
            ("seed", (self.seed != 1).then(|| self.seed.to_string())),
            ("batch-size", self.batch_size.map(|rows| rows.to_string())),
            ("iterations", self.iterations.map(|count| count.to_string())),
            ("seconds", self.seconds.map(|seconds| seconds.to_string())),
            ("rows", self.rows.map(|rows| rows.to_string())),
            ("value-bytes", self.value_bytes.map(|bytes| bytes.to_string())),
            ("api", self.api.suffix().strip_prefix(", ").map(str::to_owned)),
            ("work-us", (self.work_us != 0).then(|| self.work_us.to_string())),
            ("rate", self.rate.map(|rate| rate.to_string())),
            ("long", self.long.then(String::new)),
        ];
        let given = flags.iter().filter_map(|(name, value)| Some(format!("--{name} {}", value.as_ref()?)));
        given.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    }
}

/// Parses a count: digits, with any `_` between them, then `k` or `M` for thousands or millions.
fn parse_count(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.trim_end_matches(['k', 'K', 'm', 'M']) {
        digits if digits.len() + 1 < text.len() => return Err("one unit at most: k or M".to_owned()),
        digits => (digits, &text[digits.len()..]),
    };
    let factor = match unit {
        "" => 1,
        "k" | "K" => 1000,
        _ => 1_000_000,
    };
    let number: u64 = digits.replace('_', "").parse().map_err(|_| "a count such as 1000000, 500k or 10M")?;
    number.checked_mul(factor).filter(|&count| count > 0).ok_or("a count from 1 to 2^64 - 1".to_owned())
}

/// Parses a size in bytes: digits, then `KiB`, `MiB`, `GiB` or their first letters, all powers of 1024.
fn parse_bytes(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return Err("a size such as 4096, 8KiB, 32MiB or 1GiB".to_owned()),
    };
    let number: usize = digits.parse().map_err(|_| "a size such as 4096, 8KiB, 32MiB or 1GiB")?;
    number.checked_mul(1 << shift).ok_or("too large".to_owned())
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    const MOST: f64 = 1e6;
    let seconds = text.parse().map_err(|_| "a number of seconds such as 10 or 0.5")?;
    if seconds > 0.0 && seconds <= MOST {
        Ok(seconds)
    } else {
        Err(format!("more than 0 and at most {MOST} seconds"))
    }
}

fn parse_threads(text: &str) -> Result<usize, String> {
    const MOST: usize = 1024;
    let threads = text.parse().map_err(|_| "a number of threads")?;
    if (1..=MOST).contains(&threads) { Ok(threads) } else { Err(format!("1 to {MOST} threads")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_sizes_and_times_are_checked() {
        assert_eq!(parse_count("1_000"), Ok(1000));
        assert_eq!(parse_count("500k"), Ok(500_000));
        assert_eq!(parse_count("10M"), Ok(10_000_000));
        for bad in ["", "k", "1kM", "-1", "0", "99999999999999999999", "20000000000000M"] {
            assert!(parse_count(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("8KiB"), Ok(8192));
        assert_eq!(parse_bytes("32m"), Ok(32 << 20));
        for bad in ["", "MiB", "1TiB", "1.5G"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
        assert!(parse_threads("0").is_err());
        assert_eq!(parse_seconds("0.25"), Ok(0.25));
        for bad in ["0", "-1", "NaN", "inf", "1e7", "1s"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }
}
