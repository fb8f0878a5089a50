//! What starts a server: this program, which runs one test alone, in a process that may be killed and measured.

use pando::Durability;
use pando_server::{Config, Server};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The directory to serve, and the options, each followed by its value.
const DIR: &str = "PANDO_TEST_SERVE";
const OPTIONS: &str = "PANDO_TEST_SERVE_OPTIONS";

/// A server on `dir`, not started yet. The options are called as those of `pando serve`.
pub fn command(dir: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "serving::serves_in_a_process_of_its_own", "--nocapture"]);
    command.env(DIR, dir).env(OPTIONS, options.join(" "));
    command
}

fn set(config: &mut Config, option: &str, value: &str) {
    let number = || value.parse::<u64>().unwrap();
    let mebibytes = || value.strip_suffix('M').unwrap().parse::<usize>().unwrap() << 20;
    let limits = &mut config.limits;
    match option {
        "--durability" => config.durability = durability(value),
        "--memory" => config.memory_bytes = Some(mebibytes()),
        "--max-open" => limits.open_databases = number() as usize,
        "--max-streams" => limits.streams = number() as usize,
        "--body-timeout" => limits.body_timeout = Duration::from_secs(number()),
        "--transaction-idle" => limits.transaction_idle = Duration::from_secs(number()),
        other => panic!("no test has used {other} here yet: add it"),
    }
}

fn durability(name: &str) -> Durability {
    match name {
        "buffered" => Durability::Buffered,
        "lazy" => Durability::Lazy,
        other => panic!("no test has used the durability {other} here yet: add it"),
    }
}

/// Run by the tests that start a server: serves until the process is killed, or ended by a signal.
#[test]
fn serves_in_a_process_of_its_own() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let mut config = Config::new(dir);
    config.listen.set_port(0);
    let options = std::env::var(OPTIONS).unwrap();
    let words: Vec<&str> = options.split_whitespace().collect();
    for pair in words.chunks(2) {
        set(&mut config, pair[0], pair[1]);
    }
    let server = Server::start(config).unwrap();
    println!("\nserves at http://{}", server.address().unwrap());
    server.run().unwrap();
}
