//! What can be typed.

#[cfg(feature = "sql")]
use crate::sql;
use crate::{
    advise, backup, compact, crash, demo, explain, export, import, inspect, options, profile, records,
    salvage, serve, token,
};
use clap::{Parser, Subcommand};
use std::ffi::OsString;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed, or the key is absent
  2  the command line is wrong, or an option contradicts what is stored
  3  the files are damaged, or are not a Pando database
  4  another process has the database open
  5  conflicts that retries did not resolve

`pando --url http://HOST:PORT/DATABASE get TABLE KEY` asks a server; so do put, delete, scan, tables, rename, layout,
ttl, compression, stats, options, check, checkpoint, compact, import, export, backup, sql, and explain with get and
scan. PANDO_TOKEN is the token.

Data goes to standard output; errors, and progress at a terminal, to standard error.
Only put, sql, serve, token, import, backup, restore, salvage, demo, kills, bench and profile create
anything.";

/// Pando, an embedded transactional storage engine
#[derive(Debug, Parser)]
#[command(name = "pando", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// A command line without the program's name. Ends the process with the usual message if it is wrong.
    pub fn parse_words(words: &[OsString]) -> Self {
        Cli::parse_from(std::iter::once("pando".into()).chain(words.iter().cloned()))
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Set a key to a value; makes the database and the table if they are missing
    Put(records::PutArgs),
    /// Write a key's value to standard output, as it is
    Get(records::GetArgs),
    /// Remove a key
    Delete(records::DeleteArgs),
    /// List records in key order
    Scan(records::ScanArgs),
    /// List the tables
    Tables(inspect::InspectArgs),
    /// Give a table another name
    Rename(inspect::RenameArgs),
    /// Serve a directory of databases over HTTP, until SIGTERM or Ctrl-C
    Serve(serve::ServeArgs),
    /// Give a table another layout, and wait until it is rewritten, unless a server does that; to lsm for writes far
    /// larger than memory, to btree for reads and scans
    Layout(inspect::LayoutArgs),
    /// Have a table's entries live for a time, from their put on
    Ttl(inspect::TtlArgs),
    /// Have what merges write for an LSM table be compressed, or not
    Compression(inspect::CompressionArgs),
    /// Make, list and revoke the tokens of a served directory
    Token(token::TokenArgs),
    /// Read records from CSV, NDJSON or a directory tree
    Import(import::ImportArgs),
    /// Write records as CSV, NDJSON or a directory tree that `import` reads back
    Export(export::ExportArgs),
    /// Run SQL: statements, scripts, or a prompt
    #[cfg(feature = "sql")]
    Sql(sql::SqlArgs),
    /// Not in this build
    #[cfg(not(feature = "sql"))]
    #[command(hide = true)]
    Sql {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        words: Vec<std::ffi::OsString>,
    },
    /// Copy a database to a folder of backups or a stream, all of it or what changed
    Backup(backup::BackupArgs),
    /// Make a database of a backup; `--list` shows what a folder has
    Restore(backup::RestoreArgs),
    /// Say which layout each table wants, what operations cost in either, and what switching would
    Advise(advise::AdviseArgs),
    /// Show counts and sizes
    Stats(inspect::StatsArgs),
    /// Do one operation and say how, step by step: memtables, filters, pages, bytes, time
    Explain(explain::ExplainArgs),
    /// Show each option: its value, default and range, who set it, what a wrong value costs
    Options(options::OptionsArgs),
    /// Read everything on disk, verify every checksum and structural rule, and compare typed tables with their indexes
    Check(inspect::InspectArgs),
    /// Export what is readable of a damaged database, and say what is not
    Salvage(salvage::SalvageArgs),
    /// Merge what the log holds into the trees
    Checkpoint(inspect::CheckpointArgs),
    /// Make the files as small as they get, and print what they took before and after
    Compact(compact::CompactArgs),
    /// Run workloads and print what they took; `--list` names them
    Bench(bench::cli::Args),
    /// Run another command and write a flame graph of it: CPU time, allocations, or waits for locks
    Profile(profile::ProfileArgs),
    /// Import a real tree with several writers, verify it meanwhile, kill a writer, verify what is left
    Demo(demo::DemoArgs),
    /// Kill a writing child many times and prove each time that nothing acknowledged is lost
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
