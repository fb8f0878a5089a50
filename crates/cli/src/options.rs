//! `options`: what each option is set to, and why.

use crate::failure::{Failure, Outcome};
use crate::open::MemoryArgs;
use crate::output::{self, Cell, Format, FormatArgs, Rows};
use crate::text;
use clap::Args;
use pando::options::{Group, Setting, Value};
use std::io::{self, Write};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct OptionsArgs {
    /// The database's directory [default: none, as a new database would have them here]
    dir: Option<PathBuf>,
    #[command(flatten)]
    memory: MemoryArgs,
    /// Bytes of a page: 4K, 8K, 16K, 32K or 64K; of an existing database, what it has [default: 16K]
    #[arg(long, value_name = "SIZE", value_parser = text::parse_size)]
    page_size: Option<usize>,
    #[command(flatten)]
    format: FormatArgs,
}

/// `pando options`.
pub fn run(args: &OptionsArgs) -> Outcome {
    let mut builder = args.memory.builder();
    if let Some(bytes) = args.page_size {
        builder = builder.page_bytes(bytes);
    }
    let db = match &args.dir {
        Some(dir) => Some(builder.clone().read_only(true).open(dir)?),
        None => None,
    };
    let settings = builder.settings(db.as_ref())?;
    let write = match args.format.format() {
        Format::Table => write_for_people(&settings),
        format => write_rows(&settings, format),
    };
    write.map_err(Failure::stdout)
}

/// By group; below each option what a wrong value costs.
fn write_for_people(settings: &[Setting]) -> io::Result<()> {
    let mut out = output::stdout();
    let name_width = settings.iter().map(|setting| setting.spec.name.len()).max().unwrap_or(0);
    let value_width = settings.iter().map(|setting| shown(setting).len()).max().unwrap_or(0);
    let mut group: Option<Group> = None;
    for setting in settings {
        let spec = setting.spec;
        if group != Some(spec.group) {
            let gap = if group.is_some() { "\n" } else { "" };
            writeln!(out, "{gap}{}", spec.group)?;
            group = Some(spec.group);
        }
        let (value, origin) = (shown(setting), setting.origin);
        writeln!(out, "  {:name_width$}  {value:value_width$}  {origin}", spec.name)?;
        writeln!(out, "      default: {}", spec.default)?;
        writeln!(out, "      range: {}", spec.range_text())?;
        writeln!(out, "      {}", spec.cost)?;
    }
    out.flush()
}

/// A value with its unit: `16,384 bytes`.
fn shown(setting: &Setting) -> String {
    match setting.value {
        Value::Number(number) => format!("{} {}", text::count(number), setting.spec.unit),
        value => value.to_string(),
    }
}

fn write_rows(settings: &[Setting], format: Format) -> io::Result<()> {
    let columns = ["option", "group", "value", "unit", "default", "range", "origin", "cost"];
    let mut rows = Rows::new(output::stdout(), format, &columns)?;
    for Setting { spec, value, origin, .. } in settings {
        let (word, group, unit) = (value.to_string(), spec.group.to_string(), spec.unit.to_string());
        let (range, origin) = (spec.range_text(), origin.to_string());
        let text = |text: &'static str| Cell::Bytes(text.as_bytes());
        let value = match value {
            Value::Number(number) => Cell::Number(*number),
            _ => Cell::Bytes(word.as_bytes()),
        };
        rows.row(&[
            text(spec.name),
            Cell::Bytes(group.as_bytes()),
            value,
            Cell::Bytes(unit.as_bytes()),
            text(spec.default),
            Cell::Bytes(range.as_bytes()),
            Cell::Bytes(origin.as_bytes()),
            text(spec.cost),
        ])?;
    }
    rows.finish().map(drop)
}
