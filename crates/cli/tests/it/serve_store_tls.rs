//! `serve --store` over TLS: PostgreSQL shows a certificate that it has signed itself, and asks for a password.

use crate::http::Server;
use crate::server;
use crate::serving::command;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A server of PostgreSQL that accepts nothing over TCP but encrypted connections with a password.
struct Encrypted {
    postgres: server::Server,
    port: u16,
    /// The certificates that a client can trust: `right.pem`, and `wrong.pem` for the same name.
    certificates: TempDir,
}

impl Encrypted {
    fn start() -> Option<Encrypted> {
        let certificates = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        fs::write(certificates.path().join("right.pem"), made.cert.pem()).unwrap();
        fs::write(certificates.path().join("wrong.pem"), other.cert.pem()).unwrap();
        // Another program could take the port before PostgreSQL does; the test then fails, and says so.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let options = format!(
            "-c listen_addresses=127.0.0.1 -c port={port} -c ssl=on -c ssl_cert_file=@dir@/server.crt \
             -c ssl_key_file=@dir@/server.key -c hba_file=@dir@/hba"
        );
        let postgres = server::Server::start_with(&options, |dir: &Path| {
            fs::write(dir.join("server.crt"), made.cert.pem()).unwrap();
            fs::write(dir.join("server.key"), made.signing_key.serialize_pem()).unwrap();
            let rules = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
            fs::write(dir.join("hba"), rules).unwrap();
        })?;
        let encrypted = Encrypted { postgres, port, certificates };
        encrypted.run("CREATE ROLE app LOGIN PASSWORD 'secret'; GRANT CREATE ON DATABASE postgres TO app");
        Some(encrypted)
    }

    /// Runs statements as the operator, over the socket.
    fn run(&self, statements: &str) -> String {
        let mut psql = Command::new(server::programs().unwrap().join("psql"));
        psql.arg("--host").arg(&self.postgres.dir).arg("--port").arg(self.port.to_string());
        psql.args(["--username", "test", "--dbname", "postgres", "--no-psqlrc", "--tuples-only"]);
        let output = psql.args(["--no-align", "--quiet", "--command", statements]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// `pando serve` with the store at `host`, which trusts a certificate and has a password.
    fn serve(&self, dir: &Path, host: &str, mode: &str, trusted: &str, password: &str) -> Command {
        let url = format!("postgres://app@{host}:{}/postgres?sslmode={mode}", self.port);
        let mut serve = command(dir, &["--store", &url, "--store-timeout", "5"]);
        let file: PathBuf = self.certificates.path().join(trusted);
        serve.env("SSL_CERT_FILE", file).env_remove("SSL_CERT_DIR").env("PGPASSWORD", password);
        serve
    }
}

#[test]
fn the_way_to_the_store_is_encrypted_and_the_store_is_who_it_should_be() {
    let Some(store) = Encrypted::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let server = Server::of(store.serve(dir.path(), "127.0.0.1", "require", "right.pem", "secret"));
    assert_eq!(server.ask("PUT", "/v0/entity?id=k", b"v").status, 201);
    assert_eq!(server.ask("GET", "/v0/entity?id=k", b"").body, b"v");
    let of_server =
        "SELECT count(*) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) WHERE usename = 'app'";
    let (all, encrypted) = (store.run(of_server), store.run(&format!("{of_server} AND ssl")));
    assert_eq!(all, encrypted);
    assert_ne!(all, "0");

    let refuse = |host: &str, mode: &str, trusted: &str, password: &str, said: &str| {
        let mut serve = store.serve(dir.path(), host, mode, trusted, password);
        let output = serve.stdin(Stdio::null()).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(said), "{message}");
        assert!(!message.contains("secret"), "{message}");
    };
    let invalid = "certificate is not valid";
    refuse("127.0.0.1", "require", "wrong.pem", "secret", invalid);
    refuse("localhost", "require", "right.pem", "secret", invalid);
    refuse("127.0.0.1", "require", "right.pem", "other", "refused the user or the password");
    // To this machine, nothing is encrypted that is not asked to be; this store accepts nothing else.
    refuse("127.0.0.1", "prefer", "right.pem", "secret", "no encryption");
    assert_eq!(server.ask("GET", "/v0/entity?id=k", b"").body, b"v");
}
