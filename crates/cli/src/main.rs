//! Pando, floor 9: the command.
//!
//! [`args`] is what can be typed. Each group of commands has a file:
//!
//! * [`records`]: put, get, delete, scan; [`inspect`]: tables, rename, layout, stats, check, checkpoint; [`compact`];
//!   [`options`]: what each option is set to;
//! * [`import`] and [`export`]; [`backup`]: backup and restore; [`salvage`], when a directory is damaged;
//! * [`demo`], and [`crash`]: the workload that is killed, behind `kills` and the demo;
//! * [`remote`]: a server in the place of a directory; [`watch`]: what it does, as it does it;
//! * [`serve`] and [`token`]: the server, which is a crate of its own; so is `bench`. [`profile`] watches any other
//!   command.
//!
//! What they share: [`open`] (options of a database), [`output`] (rows in each format), [`text`] (bytes, sizes,
//! times), [`tree`] (directories as records), [`scratch`] (temporary directories), [`failure`] (exit codes),
//! [`signals`].
//!
//! Data goes to standard output. Standard error has errors, and progress if it is a terminal. Commands that only
//! look at a database create nothing.
#![deny(unsafe_code)]

mod advise;
mod args;
mod backup;
mod compact;
mod crash;
mod demo;
mod explain;
mod export;
mod export_typed;
mod failure;
mod import;
mod inspect;
mod open;
mod options;
mod output;
mod profile;
mod records;
mod remote;
mod salvage;
mod scratch;
mod serve;
mod signals;
#[cfg(feature = "sql")]
mod sql;
mod text;
mod token;
mod tree;
mod values;
mod watch;

use args::{Cli, Command};
use bench::alloc::CountingAllocator;
use clap::Parser;
use failure::Doing;
use std::process::ExitCode;

/// Counts allocations for `bench`, and shows them to `profile`, at the price of an addition and a look each.
#[global_allocator]
static ALLOCATOR: ::profile::Allocator<CountingAllocator> = ::profile::Allocator::new(CountingAllocator);

fn main() -> ExitCode {
    signals::outlive_file_size_limit();
    match remote::expand(std::env::args_os().collect()).and_then(serve::expand) {
        Ok(words) => dispatch(Cli::parse_from(words)),
        Err(failure) => failure.report(Doing::Using),
    }
}

/// What a command does, for the advice when it fails.
fn doing(command: &Command) -> Doing {
    match command {
        Command::Restore(_) => Doing::Restoring,
        Command::Salvage(_) => Doing::Salvaging,
        Command::Put(_) | Command::Import(_) | Command::Serve(_) | Command::Token(_) => Doing::Creating,
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
        Command::Stats(args) => inspect::stats(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Options(args) => options::run(&args),
        Command::Check(args) => inspect::check(&args),
        Command::Checkpoint(args) => inspect::checkpoint(&args),
        Command::Compact(args) => compact::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Salvage(args) => salvage::run(&args),
        Command::Serve(args) => serve::run(args),
        Command::Token(args) => token::run(&args),
        #[cfg(feature = "sql")]
        Command::Sql(args) => sql::run(&args),
        #[cfg(not(feature = "sql"))]
        Command::Sql { .. } => Err(failure::Failure::Usage(
            "this `pando` was built without SQL; build it with the feature `sql`, which is on by default"
                .into(),
        )),
        Command::Import(args) => import::run(&args),
        Command::Export(args) => export::run(&args),
        // It reports its failures itself, with the same exit codes.
        Command::Bench(args) => return bench::cli::run(&args),
        // The exit code is that of the command it watches.
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
