//! Pando, floor 10: the command.
//!
//! The modules are listed in their order. A module uses those before it, except where a line names two that use each
//! other:
//!
//! 1. Shared modules: [`failure`] (exit codes), [`signals`], [`text`] (bytes, sizes, times), [`open`] (options of a
//!    database), [`output`] (rows in each format), [`scratch`] (temporary directories), [`tree`] (directories as
//!    records), [`target`] (where an export is written), [`values`].
//! 2. [`remote`]: a server in the place of a directory. [`watch`]: the rates of a server.
//! 3. [`records`]: put, get, delete, scan. [`inspect`]: tables, rename, layout, stats, check, checkpoint. [`advise`];
//!    [`doctor`]; [`explain`]; [`options`]: the value of each option; [`compact`].
//! 4. [`changes`]: watch. [`consumers`] of changes. [`import`]; [`export`] and [`export_typed`], which use each other;
//!    [`copy`]: between directories and stores; `ship`: buckets; [`schedule`]: scheduled backups; [`backup`]: backup
//!    and restore; [`salvage`] for damaged directories; `sql`; `mcp`.
//! 5. [`crash`]: the workload that `kills` and the demo kill. [`demo`].
//! 6. [`token`]. [`pages`]: completions, and pages of the manual. [`follow`]: replicas. [`settings`]: options and what
//!    set them. [`store`]: databases in a remote store. [`activation`]: sockets of a service manager. [`logging`]: the
//!    log of a server. [`serve`] and [`profile`], which runs any other command, use [`args`] (the command line), which
//!    lists their arguments. [`reload`]: the options of a running server.
//!
//! Data is written to standard output. Standard error gets errors, and progress if it is a terminal. Commands that only
//! read a database create nothing.
#![deny(unsafe_code)]

mod failure;
mod signals;
mod text;
mod open;
mod output;
mod scratch;
mod tree;
mod target;
mod values;
mod remote;
mod watch;
mod records;
mod inspect;
mod advise;
mod doctor;
mod explain;
mod options;
mod compact;
mod config_file;
mod changes;
mod consumers;
mod import;
mod export;
mod export_typed;
mod copy;
#[cfg(feature = "arrow")]
mod columnar;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "ship")]
mod ship;
mod schedule;
mod backup;
mod salvage;
#[cfg(feature = "sql")]
mod sql;
#[cfg(feature = "mcp")]
mod mcp;
mod crash;
mod demo;
mod token;
mod pages;
mod follow;
mod settings;
mod store;
mod activation;
mod logging;
#[cfg(feature = "otlp")]
mod traces;
mod serve;
mod profile;
mod args;
mod reload;

use args::{Cli, Command};
use bench::alloc::CountingAllocator;
use clap::{CommandFactory, Parser};
use failure::Doing;
use std::process::ExitCode;

/// Counts allocations for `bench`, and reports them to `profile`. Each allocation costs one addition and one check.
#[global_allocator]
static ALLOCATOR: ::profile::Allocator<CountingAllocator> = ::profile::Allocator::new(CountingAllocator);

fn main() -> ExitCode {
    signals::outlive_file_size_limit();
    match remote::expand(std::env::args_os().collect())
        .and_then(|words| config_file::expand(words, Cli::command))
    {
        Ok(words) => dispatch(Cli::parse_from(words)),
        Err(failure) => failure.report(Doing::Using),
    }
}

/// Returns the kind of a command, for the advice when it fails.
fn doing(command: &Command) -> Doing {
    match command {
        Command::Restore(_) => Doing::Restoring,
        Command::Salvage(_) => Doing::Salvaging,
        Command::Put(_) | Command::Import(_) | Command::Serve(_) | Command::Token(_) => Doing::Creating,
        Command::Delete(_) | Command::Rename(_) | Command::Ttl(_) | Command::Compression(_) => {
            Doing::Changing
        }
        _ => Doing::Using,
    }
}

fn dispatch(cli: Cli) -> ExitCode {
    let doing = doing(&cli.command);
    let outcome = match cli.command {
        Command::Put(args) => records::put(&args),
        Command::Get(args) => records::get(&args),
        Command::Delete(args) => records::delete(&args),
        Command::Scan(args) => records::scan(&args),
        Command::Tables(args) => inspect::tables(&args),
        Command::Rename(args) => inspect::rename(&args),
        Command::Layout(args) => inspect::layout(&args),
        Command::Ttl(args) => inspect::ttl(&args),
        Command::Compression(args) => inspect::compression(&args),
        Command::Advise(args) => advise::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Stats(args) => inspect::stats(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Options(args) => options::run(&args),
        Command::Check(args) => inspect::check(&args),
        Command::Checkpoint(args) => inspect::checkpoint(&args),
        Command::Compact(args) => compact::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Salvage(args) => salvage::run(&args),
        Command::Serve(args) => serve::run(*args, reload::reload),
        #[cfg(feature = "ship")]
        Command::Ship(args) => ship::run(&args),
        #[cfg(not(feature = "ship"))]
        Command::Ship { .. } => Err(failure::Failure::Usage(
            "this `pando` was built without shipping; build it with the feature `ship`, on by default".into(),
        )),
        Command::Promote(args) => follow::promote::run(&args),
        Command::Token(args) => token::run(&args),
        Command::Completions(args) => pages::completions(&args, Cli::command()),
        Command::Man(args) => pages::man(&args, Cli::command()),
        #[cfg(feature = "sql")]
        Command::Sql(args) => sql::run(&args),
        #[cfg(not(feature = "sql"))]
        Command::Sql { .. } => Err(failure::Failure::Usage(
            "this `pando` was built without SQL; build it with the feature `sql`, which is on by default"
                .into(),
        )),
        #[cfg(feature = "mcp")]
        Command::Mcp(args) => mcp::run(&args),
        #[cfg(not(feature = "mcp"))]
        Command::Mcp { .. } => Err(failure::Failure::Usage(
            "this `pando` was built without the Model Context Protocol; build it with the feature `mcp`, \
             which is on by default"
                .into(),
        )),
        Command::Watch(args) => changes::run(&args),
        Command::Consumers(args) => consumers::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Copy(args) => copy::run(&args),
        // It reports its failures itself, with the same exit codes.
        Command::Bench(args) => return bench::cli::run(&args),
        // The exit code is that of the profiled command.
        Command::Profile(args) => return profile::run(&args, dispatch),
        Command::Demo(args) => demo::run(&args),
        Command::Kills(args) => crash::kills::run(&args),
        Command::CrashWriter(args) => crash::writer::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(doing),
    }
}
