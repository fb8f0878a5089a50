//! Imports rows of NDJSON or CSV into a typed table, all of them or none, as `pando import --typed` does it in a
//! directory.
//!
//! * `format`: `ndjson` or `csv`. The default is that of `Content-Type`.
//! * `delimiter`: the separator of CSV fields. The default is a comma.
//! * `insert=true`: a row whose primary key exists is an error. By default the row replaces the existing one.
//! * `schema`, and any number of `index` and `unique`: creates the table in the same transaction.
//! * `layout`, `ttl_ms`, `compression`: how that table is stored. An existing table must already be stored in this way.
//! * `chunk=N`: commits after every N rows. Rows before an error stay, and the problem says so.

use crate::access::tokens::Scope;
use crate::calls::call::Call;
use crate::calls::meanings::IMPORTED;
use crate::calls::operation::{Access, Operation, on_both};
use crate::calls::query::{durability, flag};
use crate::data::held::Data;
use crate::data::open::Open;
use crate::data::served::Served;
use crate::limits::handoff::hand_off;
use crate::limits::receive::RequestBody;
use crate::limits::room::Room;
use crate::operations::documents::address::{Asked, text_of};
use crate::operations::documents::range;
use crate::operations::tables::{compression_of, layout_of};
use crate::operations::upload::{RECORD_BYTES, Stored, Upload, import as receive};
use crate::watch::observe::Kind;
use crate::wire::problem::{Answer, Problem};
use crate::wire::target::{names, parameter, raw_parameter, raw_parameters};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use pando::{Durability, TransactionOptions};
use rows::{Definition, Import, ImportError, ImportFailure, IndexDefinition, RowFormat, RowReader, Storage};
use std::sync::Arc;
use std::time::Duration;

/// The entries of these handlers.
pub const OPERATIONS: &[Operation] = &[on_both!(
    "POST",
    "/v1/databases/{database}/documents/{table}",
    Access::Database(Scope::Write),
    Kind::Range,
    "Import documents from NDJSON or CSV in one transaction; with a schema, create the table first",
    |parts, call, body| Box::pin(run(parts.data(), parts.room(), call, body)),
)
.takes(&[
    "lines",
    "delimiter",
    "insert",
    "schema",
    "made",
    "unique",
    "layout",
    "ttl_ms",
    "compression",
    "chunk",
    "content-encoding",
    "durability",
])
.receives("rows")
.importing()
.responses(IMPORTED)];

/// The parameters of an import. Any other one is an error: a misspelt `inset=true` would replace rows that must be
/// kept.
const PARAMETERS: [&str; 11] = [
    "format",
    "delimiter",
    "insert",
    "schema",
    "index",
    "unique",
    "layout",
    "ttl_ms",
    "compression",
    "chunk",
    "durability",
];

/// The options of an import.
struct Said {
    format: RowFormat,
    delimiter: u8,
    definition: Option<Definition>,
    storage: Storage,
    upsert: bool,
    chunk_rows: Option<u64>,
    durability: Durability,
}

impl Said {
    fn new<E: Served>(usual: Durability, asked: &Asked, call: &Call) -> Answer<Self> {
        let query = call.target().query();
        if let Some(other) = names(query).find(|name| !PARAMETERS.contains(name)) {
            let known = PARAMETERS.join(", ");
            return Err(Problem::bad_request(format!("{other:?} is not one of {known}; nothing was stored")));
        }
        Ok(Said {
            format: format(query, &call.headers)?,
            delimiter: delimiter(query)?,
            definition: definition(&asked.table, query)?,
            storage: storage(query)?,
            upsert: !flag(query, "insert")?,
            chunk_rows: chunk_rows(query)?,
            durability: durability::<E>(query, usual)?,
        })
    }

    fn import<E: Served>(&self, open: &Open<E>, table: &str, upload: Upload) -> Answer<Stored> {
        let import = Import {
            table,
            definition: self.definition.as_ref(),
            storage: self.storage,
            upsert: self.upsert,
            chunk_rows: self.chunk_rows,
            options: TransactionOptions { durability: self.durability, ..E::transaction_options(&open.db) },
        };
        let mut input = RowReader::bounded(upload, self.format, self.delimiter, RECORD_BYTES as u64);
        let imported = import.run(E::any(&open.db), &mut input, |_| {}).map_err(problem)?;
        Ok(Stored { records: imported.rows, commit: imported.commit })
    }
}

/// Returns the form of the rows: from the query, or else from the header.
fn format(query: Option<&str>, headers: &HeaderMap) -> Answer<RowFormat> {
    let is_csv = || {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/csv"))
    };
    match range::format(query)? {
        Some(format) => Ok(format),
        None if is_csv() => Ok(RowFormat::Csv),
        None => Ok(RowFormat::Ndjson),
    }
}

/// Returns the separator of CSV fields.
fn delimiter(query: Option<&str>) -> Answer<u8> {
    let wrong =
        || Problem::bad_request("`delimiter` must be one ASCII character other than a quote or a line end");
    let Some(text) = parameter(query, "delimiter")? else { return Ok(b',') };
    match text[..] {
        [byte] if byte.is_ascii() && !b"\"\r\n".contains(&byte) => Ok(byte),
        _ => Err(wrong()),
    }
}

fn definition(table: &str, query: Option<&str>) -> Answer<Option<Definition>> {
    let all = |name| raw_parameters(query, name).map(text_of).collect::<Answer<Vec<String>>>();
    let (indexes, unique) = (all("index")?, all("unique")?);
    let Some(schema) = raw_parameter(query, "schema") else {
        return match indexes.len() + unique.len() {
            0 => Ok(None),
            _ => Err(Problem::bad_request(
                "`index` and `unique` apply only when the table is created; give its `schema`",
            )),
        };
    };
    let mut definition = Definition::parse(table, &text_of(schema)?)?;
    for index in indexes {
        definition = definition.index(IndexDefinition::parse(&index)?);
    }
    for index in unique {
        definition = definition.index(IndexDefinition::parse(&index)?.unique());
    }
    Ok(Some(definition))
}

fn storage(query: Option<&str>) -> Answer<Storage> {
    let word = |name| raw_parameter(query, name).map(text_of).transpose();
    let wrong = |_| Problem::bad_request("`ttl_ms` must be a whole number of milliseconds");
    let ttl = word("ttl_ms")?.map(|digits| digits.parse().map(Duration::from_millis).map_err(wrong));
    Ok(Storage {
        layout: word("layout")?.as_deref().map(layout_of).transpose()?,
        ttl: ttl.transpose()?,
        compression: word("compression")?.as_deref().map(compression_of).transpose()?,
    })
}

fn chunk_rows(query: Option<&str>) -> Answer<Option<u64>> {
    let wrong = || Problem::bad_request("`chunk` must be a whole number, 1 or more");
    let rows = raw_parameter(query, "chunk").map(|digits| digits.parse().map_err(|_| wrong()));
    match rows.transpose()? {
        Some(0) => Err(wrong()),
        rows => Ok(rows),
    }
}

/// Returns the problem of a failed import. Its type says that the rows are wrong, or that some rows stay.
fn problem(failure: ImportFailure) -> Problem {
    let (detail, kept) = (failure.to_string(), failure.kept);
    let is_engine = matches!(failure.error, ImportError::Engine(_));
    let mut problem = match failure.error {
        ImportError::Engine(error) | ImportError::Refused(error) => Problem::from(error),
        ImportError::Wrong(_) | ImportError::Unreadable(..) => Problem::bad_request(""),
    };
    if kept.is_some() || (problem.status == StatusCode::BAD_REQUEST && !is_engine) {
        problem.kind = "import";
    }
    problem.detail = detail;
    problem
}

/// Handles POST.
async fn run<E: Served>(data: Arc<Data<E>>, room: Arc<Room>, call: Call, body: RequestBody) -> Answer {
    let asked = Asked::parse(&call)?;
    call.no_part_of_transactions("an import, which is a transaction of its own, is")?;
    let said = Said::new::<E>(data.durability, &asked, &call)?;
    let open = data.database(&asked.database).await?;
    // This check comes before the body, so that no client sends a body to a missing table.
    if said.definition.is_none() {
        let (looked, place) = (Arc::clone(&open), asked.clone());
        hand_off(move || E::read(&looked.db, |snapshot| place.open(&snapshot))).await?;
    }
    // The transaction of a store keeps a connection while the rows arrive, as a range does while they are sent.
    let place = if E::HOLDS_CONNECTIONS { Some(room.stream_permit().await?) } else { None };
    receive(&room, body, move |upload| {
        let _place = place;
        said.import(&open, &asked.table, upload)
    })
    .await
}
