//! A PostgreSQL server for the tests of this process, on a socket in a temporary directory.
//!
//! A shell owns the server. It waits for the end of its input, which this process holds, so that server and directory
//! are gone when the process is, however it ends. PostgreSQL does not run as root; then it runs as its own user.
//!
//! Without PostgreSQL on the machine the tests do nothing, unless `PANDO_POSTGRES=required` is set.

use pando::remote::RemoteDatabase;
use pando_postgres::Options;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Makes a cluster in `$1` with the programs in `$2`, runs it with the options `$3` (`@dir@` is the directory), and
/// restarts it on each line of the input. The directory may have a key of TLS.
const SHELL: &str = r#"
set -u
dir=$1 bin=$2 options=${3//@dir@/$1}
as_postgres() { setpriv --reuid postgres --regid postgres --init-groups "$@"; }
run() { if [ "$(id -u)" = 0 ]; then as_postgres "$@"; else "$@"; fi; }
[ "$(id -u)" = 0 ] && chown postgres "$dir"
if [ -f "$dir/server.key" ]; then
    chmod 600 "$dir/server.key"
    [ "$(id -u)" != 0 ] || chown postgres "$dir/server.key"
fi
cd "$dir"
run "$bin/initdb" --no-sync --auth trust --username test --pgdata "$dir/data" > "$dir/log" 2>&1 ||
    { cat "$dir/log" >&2; exit 1; }
start() {
    run "$bin/pg_ctl" --pgdata "$dir/data" --log "$dir/server.log" --wait --options \
        "-c listen_addresses= -c unix_socket_directories=$dir -c fsync=off -c max_connections=100 $options" \
        start >> "$dir/log" 2>&1
}
start || { cat "$dir/log" "$dir/server.log" >&2; exit 1; }
echo ready
while read -r how; do
    run "$bin/pg_ctl" --pgdata "$dir/data" --wait --mode "$how" stop >> "$dir/log" 2>&1
    start
    echo ready
done
run "$bin/pg_ctl" --pgdata "$dir/data" --mode immediate stop >> "$dir/log" 2>&1
cd /
rm -rf "$dir"
"#;

pub struct Server {
    pub dir: PathBuf,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
    _shell: Child,
}

impl Server {
    /// Starts a server; `None` if there is no PostgreSQL here and it is not required.
    pub fn start() -> Option<Server> {
        Server::start_with("", |_| ())
    }

    /// Starts a server with options, after `prepare` has put files into its directory.
    pub fn start_with(options: &str, prepare: impl FnOnce(&Path)) -> Option<Server> {
        let Some(bin) = programs() else {
            let is_required = std::env::var_os("PANDO_POSTGRES").is_some_and(|how| how == "required");
            assert!(!is_required, "no initdb in /usr/lib/postgresql/*/bin: install postgresql");
            eprintln!("skipped: there is no PostgreSQL on this machine");
            return None;
        };
        let dir = tempfile::Builder::new().prefix("pando-pg-").tempdir().unwrap().keep();
        prepare(&dir);
        let mut shell = Command::new("bash")
            .args(["-c", SHELL, "bash"])
            .args([&dir, &bin])
            .arg(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash");
        let (input, output) = (shell.stdin.take().unwrap(), BufReader::new(shell.stdout.take().unwrap()));
        let mut server = Server { dir, input, output, _shell: shell };
        server.wait();
        Some(server)
    }

    fn wait(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "the server did not start: see above");
    }

    /// Stops the server, `fast` or as a crash (`immediate`), and starts it again.
    pub fn restart(&mut self, how: &str) {
        use std::io::Write;
        writeln!(self.input, "{how}").unwrap();
        self.wait();
    }
}

/// Returns the URL of a server whose socket is in this directory.
pub fn url(dir: &Path) -> String {
    format!("postgres:///postgres?host={}&user=test", dir.display())
}

/// Returns the directory with the newest server's programs.
pub fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<_> = versions
        .filter_map(|version| Some(version.ok()?.path().join("bin")))
        .filter(|bin| bin.join("initdb").exists())
        .collect();
    found.sort();
    found.pop()
}

/// Returns the server that the tests share.
pub fn shared() -> Option<&'static Path> {
    static SHARED: OnceLock<Option<std::sync::Mutex<Server>>> = OnceLock::new();
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    let server = SHARED.get_or_init(|| Server::start().map(std::sync::Mutex::new)).as_ref()?;
    Some(DIR.get_or_init(|| server.lock().unwrap().dir.clone()))
}

/// Returns the name of a schema that no other test uses.
pub fn schema() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("test_{}", NEXT.fetch_add(1, Ordering::SeqCst))
}

/// Returns options with a schema that no other test uses.
pub fn options() -> Options {
    Options::default().schema(&schema()).max_connections(8)
}

/// Returns a new database on the shared server.
pub fn database() -> Option<RemoteDatabase> {
    Some(options().open(&url(shared()?)).unwrap())
}
