//! What starts a server: the command.

use std::path::Path;
use std::process::Command;

/// `pando serve` on `dir`, not started yet.
pub fn command(dir: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pando"));
    command.arg("serve").arg(dir).args(["--listen", "127.0.0.1:0"]).args(options);
    command
}
