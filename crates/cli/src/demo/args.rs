//! The arguments of the demonstration.

use crate::open::CreateArgs;
use crate::text;
use clap::{Args, value_parser};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct DemoArgs {
    /// The directory tree to import [default: the sources in cargo's registry, or a small generated tree if there are
    /// none]
    pub source: Option<PathBuf>,
    /// Import a generated tree of a few MiB and finish within seconds
    #[arg(long, conflicts_with = "source")]
    pub small: bool,
    /// Keep the database in this directory, which must be empty or not exist [default: a temporary one]
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Import with N concurrent writers
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Seed of the order of the files and of generated content
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Import at most SIZE bytes
    #[arg(long, value_name = "SIZE", value_parser = text::parse_size, default_value = "200M")]
    pub most_bytes: usize,
    /// Import at most N files
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub most_files: usize,
    #[command(flatten)]
    pub create: CreateArgs,
}
