//! The protocol: which tools there are, and calls of them. One call is one transaction or one snapshot; calls run on
//! threads that may wait, so that pings and cancellations are heard meanwhile.

use crate::Options;
use crate::arguments::Arguments;
use crate::failure::{Failure, Outcome};
use crate::held::{Cancelled, Held};
use crate::tools::{ENTRIES, Entry};
use pando::{Database, Error, ErrorKind};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde_json::Value;
use sql::Sql;

/// Memory that SQLite may take for sorting and grouping, in bytes.
const SQL_MEMORY_BYTES: u64 = 64 << 20;

const INSTRUCTIONS: &str = "\
A Pando database. Start with list_tables. Typed tables have columns: read them with query (SQL in SQLite's \
dialect; sqlite_schema lists views and triggers, too). Plain tables map keys to values, which are bytes: read them \
with get and scan. Every call sees one consistent state.";

/// Serves `db` over standard input and output, until the client closes standard input.
///
/// # Errors
/// [`ErrorKind::Io`] if no runtime can be started; [`ErrorKind::Invalid`] if the client does not speak the protocol.
pub fn serve(db: Database, options: Options) -> pando::Result<()> {
    sql::limit_memory(SQL_MEMORY_BYTES).map_err(Error::from)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|cause| Error::new(ErrorKind::Io, format!("starting a runtime: {cause}")))?;
    let server = Server { sql: Sql::new(db.clone()), db, options };
    let refused = |cause: &dyn std::fmt::Display| {
        Error::new(
            ErrorKind::Invalid,
            format!("the client does not speak the Model Context Protocol: {cause}"),
        )
    };
    let outcome = runtime.block_on(async {
        let running = server.serve(rmcp::transport::stdio()).await.map_err(|cause| refused(&cause))?;
        running.waiting().await.map(drop).map_err(|cause| refused(&cause))
    });
    // The thread that reads standard input cannot be stopped.
    runtime.shutdown_background();
    outcome
}

struct Server {
    db: Database,
    sql: Sql,
    options: Options,
}

impl Server {
    fn entries(&self) -> impl Iterator<Item = &'static Entry> {
        let may_write = self.options.allows_writes && !self.db.is_read_only();
        ENTRIES.iter().filter(move |entry| may_write || !entry.writes)
    }

    fn find(&self, name: &str) -> Outcome<&'static Entry> {
        if let Some(entry) = self.entries().find(|entry| entry.name == name) {
            return Ok(entry);
        }
        Err(Failure(match ENTRIES.iter().any(|entry| entry.name == name) {
            true if self.options.allows_writes => {
                format!("{name} is not available: the database is open for reading only")
            }
            true => format!("{name} is not available: the server was started without --allow-writes"),
            false => format!("there is no tool {name:?}"),
        }))
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("pando", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.find(name).ok().map(Entry::tool)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.entries().map(Entry::tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let entry = match self.find(&request.name) {
            Ok(entry) => entry,
            Err(Failure(message)) => return Err(ErrorData::invalid_params(message, None)),
        };
        let cancelled = Cancelled::new(move || context.ct.is_cancelled());
        let held = Held { db: self.db.clone(), sql: self.sql.clone(), options: self.options, cancelled };
        let work =
            tokio::task::spawn_blocking(move || call(entry, &held, request.arguments.unwrap_or_default()));
        let outcome = work.await.unwrap_or_else(|panic| Err(Failure(format!("the call failed: {panic}"))));
        Ok(match outcome {
            Ok(value) => CallToolResult::structured(value),
            Err(Failure(message)) => CallToolResult::error(vec![ContentBlock::text(message)]),
        }
        .into())
    }
}

fn call(entry: &Entry, held: &Held, members: JsonObject) -> Outcome<Value> {
    let arguments = Arguments::new(members, &entry.properties())?;
    (entry.run)(held, &arguments)
}
