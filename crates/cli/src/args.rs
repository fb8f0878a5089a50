//! The arguments of the command line.

#[cfg(feature = "ship")]
use crate::ship;
#[cfg(feature = "sql")]
use crate::sql;
use crate::{
    advise, backup, changes, compact, consumers, copy, crash, demo, doctor, explain, export, follow, import,
    inspect, options, pages, profile, records, salvage, serve, token,
};
use clap::{Parser, Subcommand};
use std::ffi::OsString;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed, or the key does not exist
  2  the command line is wrong, or an option contradicts the stored setting
  3  the files are damaged, or are not a Pando database
  4  another process has the database open
  5  conflicts between transactions that retries did not resolve
  6  `doctor` has found something that needs attention

Servers:
  `pando --url http://HOST:PORT/DATABASE get TABLE KEY` runs the command on a server. These commands can do that: get,
  put, delete, scan, tables, rename, layout, ttl, compression, advise, doctor, stats, options, check, checkpoint,
  compact, import, export, backup, watch, consumers, sql, and explain with get and scan. The environment variable
  PANDO_TOKEN holds the token.

Output:
  Data goes to standard output. Errors go to standard error, and so does progress if it is a terminal.

Missing databases:
  put, import, sql and serve create a database that does not exist. copy, restore and salvage write a new one. All
  other commands fail if the database that they name does not exist.

Examples:
  pando put shop colors lemon yellow
  pando get shop colors lemon
  pando scan shop colors --prefix le --json
  pando serve data";

/// Pando, an embedded transactional storage engine
#[derive(Debug, Parser)]
#[command(name = "pando", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Parses a command line without the program's name. If it is invalid, prints the usual message and ends the
    /// process.
    pub fn parse_words(words: &[OsString]) -> Self {
        Cli::parse_from(std::iter::once("pando".into()).chain(words.iter().cloned()))
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Set a key to a value; create the database and the table if they do not exist
    Put(records::PutArgs),
    /// Print the value of a key, byte for byte
    Get(records::GetArgs),
    /// Delete a key
    Delete(records::DeleteArgs),
    /// Print records in key order
    Scan(records::ScanArgs),
    /// List the tables of keys and values, and the internal tables of SQL
    ///
    /// SQL does not see tables of keys and values: a table of SQL with the same name is another table. The rows of SQL
    /// and of typed tables are in internal tables, `sql:...` and `rows/...`. `pando sql DIR "SELECT name FROM
    /// sqlite_schema"` lists the tables of SQL.
    Tables(inspect::InspectArgs),
    /// Rename a table
    Rename(inspect::RenameArgs),
    /// Serve a directory of databases over HTTP, until SIGTERM or Ctrl-C
    Serve(Box<serve::ServeArgs>),
    /// Change the layout of a table: btree for reads and scans, lsm for writes far larger than memory
    Layout(inspect::LayoutArgs),
    /// Set or remove the time after which entries of a table expire
    Ttl(inspect::TtlArgs),
    /// Set the compression of an LSM table
    Compression(inspect::CompressionArgs),
    /// Create, list and revoke the access tokens of a served directory
    Token(token::TokenArgs),
    /// Import records from CSV, NDJSON or a directory tree
    Import(import::ImportArgs),
    /// Export records as CSV, NDJSON or a directory tree that `import` can read
    Export(export::ExportArgs),
    /// Copy a database between directories and stores that speak PostgreSQL's protocol, and verify the copy
    Copy(copy::CopyArgs),
    /// Print every commit as it comes, a line of JSON for each operation
    Watch(changes::WatchArgs),
    /// List the named consumers of changes, or drop one
    Consumers(consumers::ConsumersArgs),
    /// Run SQL statements, a script, or an interactive prompt
    #[cfg(feature = "sql")]
    Sql(sql::SqlArgs),
    /// Not in this build
    #[cfg(not(feature = "sql"))]
    #[command(hide = true)]
    Sql {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        words: Vec<std::ffi::OsString>,
    },
    /// Serve a database to an agent over the Model Context Protocol, on standard input and output
    #[cfg(feature = "mcp")]
    Mcp(crate::mcp::McpArgs),
    /// Not in this build
    #[cfg(not(feature = "mcp"))]
    #[command(hide = true)]
    Mcp {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        words: Vec<std::ffi::OsString>,
    },
    /// Back up a database to a folder or a stream, in full or incrementally
    Backup(backup::BackupArgs),
    /// Create a database from a backup or a bucket, or list what a folder or bucket has
    Restore(backup::RestoreArgs),
    /// Ship the commits of a database to a bucket or a folder, continuously or once
    #[cfg(feature = "ship")]
    Ship(ship::ShipArgs),
    /// Not in this build
    #[cfg(not(feature = "ship"))]
    #[command(hide = true)]
    Ship {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        words: Vec<std::ffi::OsString>,
    },
    /// Make a replica a primary: a running server, or the directory of one
    Promote(follow::promote::PromoteArgs),
    /// Recommend a layout for each table, with the estimated cost of operations and of switching
    Advise(advise::AdviseArgs),
    /// Report problems of a database or its server, and what to do about them
    Doctor(doctor::DoctorArgs),
    /// Print counters and sizes of a database
    Stats(inspect::StatsArgs),
    /// Run one operation and print its steps: memtables, filters, pages, bytes and time
    Explain(explain::ExplainArgs),
    /// Print each option: value, default, range, where it was set, and the cost of a wrong value
    Options(options::OptionsArgs),
    /// Verify every checksum and every structural rule on disk, and compare typed tables with their indexes
    Check(inspect::InspectArgs),
    /// Copy the readable part of a damaged database, and report what is lost
    Salvage(salvage::SalvageArgs),
    /// Write a checkpoint: merge all logged changes into the data file
    Checkpoint(inspect::CheckpointArgs),
    /// Shrink the files of a database, and print their sizes before and after
    Compact(compact::CompactArgs),
    /// Print the completions for a shell
    Completions(pages::CompletionsArgs),
    /// Write the pages of the manual to a directory
    Man(pages::ManArgs),
    /// Run benchmark workloads and print their results
    Bench(bench::cli::Args),
    /// Run another command and write a flame graph of its CPU time, allocations or lock waits
    Profile(profile::ProfileArgs),
    /// Show the engine at work: import files with several writers, kill a writer, verify the result
    Demo(demo::DemoArgs),
    /// Kill a writing process many times, and verify each time that no acknowledged commit is lost
    Kills(crash::kills::KillsArgs),
    /// Write until killed: the child of `kills` and `demo`
    #[command(hide = true)]
    CrashWriter(crash::writer::WriterArgs),
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
