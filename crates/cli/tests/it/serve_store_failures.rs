//! `serve --store` when the store fails: each response says by its status what happened, and by its detail what to do.

use crate::http::{Reply, Server};
use crate::proxy::Proxy;
use crate::serve_store::value;
use crate::server;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// `psql` on the shared server, not started yet.
pub fn psql(statements: &str) -> Command {
    let mut command = Command::new(server::programs().unwrap().join("psql"));
    command.arg("--host").arg(server::shared().unwrap());
    command.args([
        "--username",
        "test",
        "--dbname",
        "postgres",
        "--no-psqlrc",
        "--tuples-only",
        "--no-align",
    ]);
    command.args(["--quiet", "--set", "ON_ERROR_STOP=1", "--command", statements]);
    command
}

/// Runs statements on the shared server, and returns what they say.
#[track_caller]
pub fn run(statements: &str) -> String {
    let Output { status, stdout, stderr } = psql(statements).output().unwrap();
    assert!(status.success(), "{statements}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap().trim().to_owned()
}

/// A server whose user in the store is one that a test can restrict.
struct Restricted {
    server: Server,
    user: String,
    schema: String,
    _dir: TempDir,
}

impl Restricted {
    fn start(store: &Path) -> Restricted {
        let (schema, dir) = (server::schema(), tempfile::tempdir().unwrap());
        let user = format!("app_{schema}");
        run(&format!("CREATE ROLE {user} LOGIN; GRANT CREATE ON DATABASE postgres TO {user}"));
        let url = format!("postgres:///postgres?host={}&user={user}", store.display());
        let options = ["--store", &url, "--store-schema", &schema, "--store-timeout", "5"];
        let server = Server::start_with(dir.path(), &options);
        assert_eq!(server.ask("PUT", ENTITY, b"v").status, 201);
        Restricted { server, user, schema, _dir: dir }
    }

    #[track_caller]
    fn fails_to_put(&self, status: u16, kind: &str, advice: &str) {
        fails(&self.server.ask("PUT", ENTITY, b"w"), status, kind, advice);
    }
}

const ENTITY: &str = "/v0/entity?id=k";

#[track_caller]
fn fails(reply: &Reply, status: u16, kind: &str, advice: &str) {
    assert_eq!(reply.status, status, "{}", reply.text());
    assert_eq!(value(reply)["type"], format!("urn:pando:problem:{kind}"));
    assert!(reply.text().contains(advice), "{}", reply.text());
    assert_eq!(reply.header("retry-after").is_some(), status == 503, "{}", reply.text());
}

#[test]
fn each_failure_of_the_store_is_what_it_is() {
    let Some(store) = server::shared() else { return };
    let app = Restricted::start(store);
    let (user, schema) = (&app.user, &app.schema);

    // As a full disk would, which needs a file system of its own.
    run(&format!(
        "CREATE FUNCTION {schema}.fill() RETURNS trigger LANGUAGE plpgsql AS \
             $$BEGIN RAISE 'No space left on device' USING ERRCODE = '53100'; END$$; \
         CREATE TRIGGER fill BEFORE INSERT ON {schema}.records FOR EACH ROW EXECUTE FUNCTION {schema}.fill()"
    ));
    app.fails_to_put(507, "store-full", "free space there");
    run(&format!("DROP TRIGGER fill ON {schema}.records"));
    assert_eq!(app.server.ask("PUT", ENTITY, b"v").status, 201);

    // A statement that takes too long, because it waits for a lock.
    let lock = format!("BEGIN; LOCK TABLE {schema}.records; SELECT pg_sleep(60)");
    let holder = Killed(psql(&lock).spawn().unwrap());
    let held = format!(
        "SELECT count(*) FROM pg_locks WHERE granted AND mode = 'AccessExclusiveLock' \
                        AND relation = '{schema}.records'::regclass"
    );
    wait_until(|| run(&held) == "1");
    app.fails_to_put(504, "store-timeout", "raise the timeout");
    fails(&app.server.ask("GET", ENTITY, b""), 504, "store-timeout", "raise the timeout");
    drop(holder);
    run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' \
         AND pid <> pg_backend_pid()");
    wait_until(|| run(&held) == "0");
    assert_eq!(app.server.ask("GET", ENTITY, b"").body, b"v", "nothing was written");

    // No connection is left for the user.
    run(&format!("ALTER ROLE {user} CONNECTION LIMIT 0"));
    run(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{user}'"));
    // A commit on a connection that had ended could not be asked for, and would be in doubt.
    fails(&app.server.ask("GET", ENTITY, b""), 503, "store-busy", "53300");
    run(&format!("ALTER ROLE {user} CONNECTION LIMIT -1"));
    assert_eq!(app.server.ask("PUT", ENTITY, b"v").status, 201);

    // The user may not do it.
    run(&format!("REASSIGN OWNED BY {user} TO test"));
    app.fails_to_put(500, "store-misconfigured", "grant it the schema");
    run(&format!(
        "GRANT USAGE ON SCHEMA {schema} TO {user}; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {user}"
    ));
    assert_eq!(app.server.ask("PUT", ENTITY, b"v").status, 201);

    // The user may not come in.
    run(&format!("ALTER ROLE {user} NOLOGIN"));
    run(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{user}'"));
    fails(&app.server.ask("GET", ENTITY, b""), 500, "store-misconfigured", "refused the user");
    run(&format!("ALTER ROLE {user} LOGIN"));
    assert_eq!(app.server.ask("GET", ENTITY, b"").body, b"v");

    // A relation is gone.
    run(&format!("ALTER TABLE {schema}.records RENAME TO lost"));
    app.fails_to_put(500, "store-misconfigured", "restore it");
}

/// A process that ends with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
pub fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// More requests than connections: some wait for a response of the store, some for a connection to begin, and the rest
/// for one of those.
#[test]
fn a_store_that_drops_packets_is_unavailable_for_every_request() {
    let Some(store) = server::shared() else { return };
    let (proxy, dir) = (Proxy::start(store), tempfile::tempdir().unwrap());
    let (url, schema) = (server::url(&proxy.dir), server::schema());
    let options =
        ["--store", &url, "--store-schema", &schema, "--store-timeout", "4", "--store-connections", "6"];
    let server = Server::start_with(dir.path(), &options);
    assert_eq!(server.ask("PUT", ENTITY, b"v").status, 201);
    proxy.set_silent(true);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let reply = server.ask("GET", ENTITY, b"");
                assert_eq!(reply.status, 503, "{}", reply.text());
                assert!(reply.header("retry-after").is_some());
            });
        }
    });
    fails(&server.ask("GET", ENTITY, b""), 503, "store-unavailable", "did not accept a connection");
    proxy.set_silent(false);
    assert_eq!(server.ask("GET", ENTITY, b"").body, b"v");
}
