//! What starts a server: the command.

use std::path::Path;
use std::process::Command;

/// `pando serve` on `dir`, not started yet. If `PANDO_SQL_STORE` is set, its databases are in PostgreSQL, in schemas of
/// the directory's own.
pub fn command(dir: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pando"));
    command.arg("serve").arg(dir).args(["--listen", "127.0.0.1:0"]).args(options);
    #[cfg(feature = "postgres")]
    if std::env::var_os("PANDO_SQL_STORE").is_some() && !options.contains(&"--store") {
        let url = crate::server::url(crate::server::shared().expect("a server of PostgreSQL starts"));
        let schema: String = dir.to_string_lossy().bytes().map(|byte| format!("{byte:02x}")).collect();
        // A schema has a name of at most 63 bytes; directories differ at their ends.
        let schema = format!("t{}", &schema[schema.len().saturating_sub(40)..]);
        command.args(["--store", &url, "--store-schema", &schema, "--store-connections", "18"]);
    }
    command
}
