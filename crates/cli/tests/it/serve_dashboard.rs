//! The dashboard, driven in a browser as a person would: entries are clicked on and stored, the box for SQL is typed
//! into, run by Ctrl+Enter, cancelled.
#![cfg(feature = "sql")]

use crate::browser::Browser;
use crate::http::Server;
use serde_json::json;

const ENTER: u32 = 13;
const ESCAPE: u32 = 27;

/// Puts a statement into the box.
fn write(browser: &mut Browser, sql: &str) {
    browser.value("document.getElementById('query').value = ''");
    browser.value("document.getElementById('query').focus()");
    browser.type_text(sql);
}

/// Runs a statement by its key and waits for the end.
fn run(browser: &mut Browser, sql: &str) -> String {
    write(browser, sql);
    browser.value("document.getElementById('answer').textContent = ''");
    browser.press("Enter", ENTER, true);
    browser.wait_for("!running && document.getElementById('answer').textContent");
    browser.value("document.getElementById('answer').textContent").as_str().unwrap().to_owned()
}

/// The cells of the first rows, and their classes.
fn cells(browser: &mut Browser) -> serde_json::Value {
    browser.value(
        "[...document.querySelectorAll('#results tbody tr')].slice(0, 5)
           .map(row => [...row.cells].map(cell => [cell.textContent, cell.className]))",
    )
}

#[test]
fn statements_are_run_from_the_dashboard() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let fill = "CREATE TABLE \"fruit salad\"(id INTEGER PRIMARY KEY, name TEXT, price REAL, raw BLOB);
                INSERT INTO \"fruit salad\" VALUES
                    (1, '<b>apple</b>', 1.0, x'00ff'), (9007199254740993, NULL, -2.5e300, NULL)";
    let asks = json!({ "sql": fill }).to_string();
    assert_eq!(server.ask("POST", "/v1/databases/default/sql", asks.as_bytes()).status, 200);
    let Some(mut browser) = Browser::open(dir.path(), &format!("http://{}/", server.address)) else {
        eprintln!("skipped: there is no chromium to show the page");
        return;
    };
    browser.wait_for("document.body && document.body.dataset.ready");
    // A click on a table's name writes the statement; what a database holds is text, with type and all digits.
    browser.value("document.querySelector('#tables-of-sql button').click()");
    let written = browser.value("document.getElementById('query').value");
    assert_eq!(written, "SELECT * FROM \"fruit salad\"");
    assert!(run(&mut browser, written.as_str().unwrap()).starts_with("2 rows in "));
    assert_eq!(
        cells(&mut browser),
        json!([
            [["1", "number"], ["<b>apple</b>", ""], ["1.0", "number"], ["x'00ff'", "blob"]],
            [["9007199254740993", "number"], ["NULL", "null"], ["-2.5e300", "number"], ["NULL", "null"]],
        ])
    );
    let heads = browser.value("[...document.querySelectorAll('#results th')].map(head => head.textContent)");
    assert_eq!(heads, json!(["idINTEGER", "nameTEXT", "priceREAL", "rawBLOB"]));
    // What keeps its rows is looked at, and not written to beside it.
    let typed = "[...document.querySelectorAll('#tables tr.pick')]
        .find(row => row.cells[0].textContent.startsWith('rows/'))";
    browser.wait_for(typed);
    browser.value(&format!("{typed}.click()"));
    let is_seen = |id: &str| format!("document.getElementById('{id}').checkVisibility()");
    browser.wait_for(&format!("{} && !{}", is_seen("typed"), is_seen("edit")));
    // Statements that write, and wrong ones, say why; an empty answer says so.
    assert!(run(&mut browser, "DELETE FROM \"fruit salad\"").contains("read_only"));
    assert!(run(&mut browser, "SELEC 1").contains("syntax error"));
    assert!(browser.value("document.getElementById('answer').className").as_str().unwrap().contains("bad"));
    assert!(run(&mut browser, "SELECT 1 AS n WHERE 0; SELECT 2 AS m").starts_with("1 row in "));
    assert_eq!(browser.value("document.querySelectorAll('#results table').length"), 2);
    assert_eq!(browser.value("document.querySelector('#results caption').textContent"), "no rows");
    // As many rows as are wanted, of an answer without an end; the server stops.
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    let answer = run(&mut browser, &format!("{endless} SELECT i FROM n"));
    assert!(answer.starts_with("the first 1,000 rows, in") && answer.contains("there are more"), "{answer}");
    assert_eq!(browser.value("document.querySelectorAll('#results tbody tr').length"), 1000);
    // Cancelled: by Escape, and by the button.
    for by_key in [true, false] {
        write(&mut browser, &format!("{endless} SELECT count(*) FROM n"));
        browser.press("Enter", ENTER, true);
        browser.wait_for("running && !document.getElementById('cancel').hidden");
        match by_key {
            true => browser.press("Escape", ESCAPE, false),
            false => drop(browser.value("document.getElementById('cancel').click()")),
        }
        browser.wait_for("!running");
        let answer = browser.value("document.getElementById('answer').textContent");
        assert!(answer.as_str().unwrap().starts_with("cancelled after"), "{answer}");
    }
    // A row that broke off, and why; and an answer that says no more.
    let mut told_of = |lines: &str| {
        browser.value(&format!("readRows(new Response(`{lines}`), 9).catch(error => error.message)"))
    };
    assert_eq!(told_of(r#"{"columns":["a"]}\n["x\n{"error":{"detail":"late"}}\n"#), "late");
    assert_eq!(told_of(r#"{"columns":["a"]}\n["x"]\n"#), "the response ended early: some rows are missing");
    browser
        .wait_for("[...document.querySelectorAll('#latency td')].some(cell => cell.textContent === 'SQL')");
    // On a phone nothing is wider than the screen, but for what scrolls by itself.
    browser.set_width(390);
    run(&mut browser, "SELECT * FROM \"fruit salad\" AS a, \"fruit salad\" AS b");
    let widths = browser.value("[document.documentElement.scrollWidth, innerWidth]");
    assert_eq!(widths[0], widths[1], "the page scrolls sideways");
    assert_eq!(server.ask("GET", "/readyz", b"").status, 200);
}

#[test]
fn an_entry_is_stored_as_it_was_but_for_what_was_changed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    for (key, value) in [
        ("bytes", &b"\0\xff\n"[..]),
        ("lines", b"a\r\nb\n"),
        ("text", b"a\n\xc3\xa4"),
        (".", b"dot"),
        ("..", b"\xff"),
    ] {
        assert_eq!(server.ask("PUT", &format!("/v0/entity?id={key}"), value).status, 201);
    }
    let Some(mut browser) = Browser::open(dir.path(), &format!("http://{}/", server.address)) else {
        eprintln!("skipped: there is no chromium to show the page");
        return;
    };
    let cells = "[...document.querySelectorAll('#entries td.key')]";
    browser.wait_for(&format!("{cells}.length === 5"));
    // Picks an entry, has it written so, and stores it; answers what it was written as.
    let mut store = |key: &str, change: &str, then: &str| {
        browser.value(&format!("{cells}.find(cell => cell.textContent === '{key}').click()"));
        let written = browser.value("document.getElementById('value').value");
        let store = format!(
            "document.getElementById('value').value += '{change}';
             document.getElementById('note').textContent = '';
             document.getElementById('edit').requestSubmit()"
        );
        browser.value(&store);
        browser.wait_for("document.getElementById('note').textContent");
        assert_eq!(browser.value("document.getElementById('note').textContent"), then, "{key}");
        let stored = server.ask("GET", &format!("/v0/entity?id={key}"), b"").body;
        (written.as_str().unwrap().to_owned(), stored)
    };
    assert_eq!(store("bytes", "", "Stored."), ("00ff0a".to_owned(), b"\0\xff\n".to_vec()));
    assert_eq!(store("bytes", " 0d", "Stored."), ("00ff0a".to_owned(), b"\0\xff\n\r".to_vec()));
    let refused = "Write two hexadecimal digits for each byte.";
    assert_eq!(store("bytes", "0", refused), ("00ff0a0d".to_owned(), b"\0\xff\n\r".to_vec()));
    assert_eq!(store("lines", "", "Stored."), ("610d0a620a".to_owned(), b"a\r\nb\n".to_vec()));
    // A browser would take these out of an address, with what stands before.
    assert_eq!(store(".", "!", "Stored."), ("dot".to_owned(), b"dot!".to_vec()));
    assert_eq!(store("..", "00", "Stored."), ("ff".to_owned(), b"\xff\0".to_vec()));
    assert_eq!(store("text", "!", "Stored."), ("a\nä".to_owned(), "a\nä!".as_bytes().to_vec()));
    for key in [".", "text"] {
        browser.value(&format!("{cells}.find(cell => cell.textContent === '{key}').click()"));
        browser.value(
            "document.getElementById('note').textContent = ''; document.getElementById('remove').click()",
        );
        browser.wait_for("document.getElementById('note').textContent");
        assert_eq!(browser.value("document.getElementById('note').textContent"), "Deleted.", "{key}");
        assert_eq!(server.ask("GET", &format!("/v0/entity?id={key}"), b"").status, 404, "{key}");
    }
    browser.value(
        "document.getElementById('prefix').value = 'x'; document.getElementById('find').requestSubmit()",
    );
    browser.wait_for("document.getElementById('entries').textContent === 'none'");
}

#[test]
fn a_flame_graph_is_shown_whole() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let Some(mut browser) = Browser::open(dir.path(), &format!("http://{}/", server.address)) else {
        eprintln!("skipped: there is no chromium to show the page");
        return;
    };
    browser.wait_for("document.body && document.body.dataset.ready");
    if browser.value("document.getElementById('profile').hidden") == true {
        return;
    }
    browser.value(
        "$('profile-kind').value = 'alloc'; $('profile-seconds').value = 2; $('profiler').requestSubmit()",
    );
    browser.wait_for("document.querySelector('#flame iframe')");
    let frame = "document.querySelector('#flame iframe')";
    let drawn = browser.value(&format!("Number({frame}.srcdoc.match(/<svg[^>]* height=\"(\\d+)\"/)[1])"));
    let shown = browser.value(&format!("{frame}.clientHeight"));
    assert!(shown.as_f64() >= drawn.as_f64() && drawn.as_f64() > Some(50.0), "{shown} of {drawn}");
    // It took as long as it was asked to: that is not slow.
    assert!(!server.ask("GET", "/debug/slow", b"").text().contains("profile"));
}

/// Who may not see the default database is shown what he may; a database that is dropped is looked at no more.
#[test]
fn the_dashboard_shows_a_database_that_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let token = |name: &str, rest: &[&str]| {
        let mut pando = std::process::Command::new(env!("CARGO_BIN_EXE_pando"));
        pando.args(["token", "create"]).arg(dir.path()).args(["--name", name, "--scope", "admin"]).args(rest);
        format!("Bearer {}", String::from_utf8(pando.output().unwrap().stdout).unwrap().trim())
    };
    let (all, shop) = (token("all", &[]), token("shop", &["--database", "shop"]));
    let server = Server::start(dir.path());
    let ask =
        |method: &str, path: &str| server.ask_with(method, path, &[("authorization", &all)], b"").status;
    assert_eq!((ask("PUT", "/v1/databases/shop"), ask("PUT", "/v1/databases/shop/tables/fruit")), (201, 201));
    let Some(mut browser) = Browser::open(dir.path(), &format!("http://{}/", server.address)) else {
        eprintln!("skipped: there is no chromium to show the page");
        return;
    };
    let title = "document.getElementById('tables-title')?.textContent";
    browser.send_header("authorization", &shop);
    browser.wait_for(&format!("{title} === 'Tables of shop' && document.body.dataset.ready"));
    browser.send_header("authorization", &all);
    browser.wait_for(&format!("{title} === 'Tables of default' && document.body.dataset.ready"));
    browser.value("[...document.querySelectorAll('#databases tr.pick')].at(-1).click()");
    browser.wait_for(&format!("{title} === 'Tables of shop'"));
    assert_eq!(ask("DELETE", "/v1/databases/shop"), 204);
    browser.wait_for(&format!("{title} === 'Tables of default'"));
}
