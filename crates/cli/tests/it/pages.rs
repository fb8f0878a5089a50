//! `pando completions` and `pando man`: what packages install.

use crate::common::{failure, pando, text};
use std::collections::BTreeSet;
use std::process::Command;

/// The names of the commands that `--help` lists.
fn commands() -> Vec<String> {
    let help = text(pando(["--help"]));
    let lines =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names =
        lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_command_has_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("pages/man1");
    text(pando(["man", pages.to_str().unwrap()]));
    let entries = std::fs::read_dir(&pages).unwrap();
    let names: BTreeSet<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let commands = commands();
    assert!(commands.len() > 30, "{commands:?}");
    for command in &commands {
        assert!(names.contains(&format!("pando-{command}.1")), "{command}: {names:?}");
    }
    assert!(names.contains("pando.1") && names.contains("pando-token-create.1"), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("crash")), "{names:?}");
    let serve = std::fs::read_to_string(pages.join("pando-serve.1")).unwrap();
    assert!(serve.contains(".TH pando-serve 1"), "{}", &serve[..200]);
    for part in ["pando serve", "\\-\\-backup\\-every", "PANDO_LISTEN"] {
        assert!(serve.contains(part), "{part}");
    }
    // Its formatter has nothing to say, where there is one.
    for name in &names {
        let run = Command::new("groff").args(["-man", "-Tutf8", "-ww"]).arg(pages.join(name)).output();
        let Ok(run) = run else { return };
        assert!(run.stderr.is_empty(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
    }
    failure(pando(["man", "/dev/null/pages"]), 1);
}

#[test]
fn shells_complete_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(pando(["completions", shell]));
        for word in ["doctor", "serve", "backup-keep"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    failure(pando(["completions", "csh"]), 2);
    // Bash itself completes with the script.
    let script = text(pando(["completions", "bash"]));
    let lines = "\nCOMP_WORDS=(pando doc); COMP_CWORD=1; _pando pando doc pando\n\
                 echo \"${COMPREPLY[@]}\"\n\
                 COMP_WORDS=(pando serve --backup-k); COMP_CWORD=2; _pando pando --backup-k serve\n\
                 echo \"${COMPREPLY[@]}\"\n";
    let run = Command::new("bash").args(["--norc", "-c", &format!("{script}{lines}")]).output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert_eq!(said, "doctor\n--backup-keep\n", "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn the_unit_of_the_service_is_valid() {
    let unit = include_str!("../../../../deploy/debian/pando.service");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pando.service");
    let unit = unit.replace("/usr/bin/pando", env!("CARGO_BIN_EXE_pando")).replace("man:pando-serve(1) ", "");
    std::fs::write(&path, unit).unwrap();
    let Ok(run) = Command::new("systemd-analyze").arg("verify").arg(&path).output() else { return };
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success() && !said.contains("pando.service:"), "{said}");
}

#[test]
fn the_configuration_of_the_package_is_one_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let given = include_str!("../../../../deploy/debian/pando.toml");
    // Options that are not set are examples: each must be one that exists.
    let examples =
        given.lines().filter_map(|line| line.strip_prefix('#').filter(|rest| rest.contains(" = \"")));
    let places = [("/etc/pando", "etc"), ("/run/pando", "run"), ("/mnt/backups", "backups")];
    let set = |text: &str| {
        places.iter().fold(text.to_owned(), |text, (from, to)| {
            text.replace(from, dir.path().join(to).to_str().unwrap())
        })
    };
    let all: Vec<String> = given.lines().filter(|line| !line.starts_with('#')).map(set).collect();
    let examples: Vec<String> = examples.filter(|line| !line.starts_with("tls")).map(set).collect();
    assert!(examples.len() >= 5, "{examples:?}");
    for place in ["etc", "run"] {
        std::fs::create_dir(dir.path().join(place)).unwrap();
    }
    let config = dir.path().join("pando.toml");
    let text = [all, examples].concat().join("\n").replace("7263", "0");
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pando"));
    command.arg("serve").arg(dir.path().join("data")).arg("--config").arg(&config);
    let server = crate::http::Server::of(command);
    assert_eq!(server.ask("GET", "/readyz", b"").status, 200);
    assert!(dir.path().join("run/pando.sock").exists());
    assert!(server.terminate().success());
}
