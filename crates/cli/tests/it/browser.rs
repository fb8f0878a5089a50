//! A headless chromium that is told what to do, through its debugging pipe: one message of JSON after the other, each
//! ended by a NUL.

use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A browser with one page, killed when dropped.
pub struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    session: Option<String>,
    asked: u64,
}

impl Browser {
    /// Shows `address`; `dir` is for what the browser keeps. `None`: there is no chromium that runs.
    pub fn open(dir: &Path, address: &str) -> Option<Self> {
        let runs = Command::new("chromium").arg("--version").stdout(Stdio::null()).status();
        if !runs.is_ok_and(|status| status.success()) {
            return None;
        }
        let (to, from) = (dir.join("to"), dir.join("from"));
        let made = Command::new("mkfifo").args([&to, &from]).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo makes pipes");
        let flags = "--headless --no-sandbox --disable-gpu --remote-debugging-pipe --window-size=1200,900";
        let line = format!(
            "exec chromium {flags} --user-data-dir={} about:blank 3<{} 4>{}",
            dir.join("browser").display(),
            to.display(),
            from.display()
        );
        let child = Command::new("sh").args(["-c", &line]).stderr(Stdio::null()).spawn().ok()?;
        let to = OpenOptions::new().write(true).open(to).ok()?;
        let from = BufReader::new(File::open(from).ok()?);
        let mut browser = Browser { child, to, from, session: None, asked: 0 };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach)?;
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        // Answered when the page is there: one that is on its way cannot be loaded again.
        browser.call("Page.navigate", json!({ "url": address }))?;
        Some(browser)
    }

    /// What the browser answers; `None` if it has gone.
    fn call(&mut self, method: &str, params: Value) -> Option<Value> {
        self.asked += 1;
        let mut message = json!({ "id": self.asked, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).ok()?;
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).ok()?;
            let answer: Value = serde_json::from_slice(bytes.strip_suffix(b"\0")?).ok()?;
            if answer["id"] == json!(self.asked) {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return Some(answer["result"].clone());
            }
        }
    }

    /// What an expression is worth in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let found = self.call("Runtime.evaluate", asked).expect("the browser runs");
        assert!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        found["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn wait_for(&mut self, expression: &str) {
        let begun = Instant::now();
        while self.value(&format!("Boolean({expression})")) != json!(true) {
            let shown = || "document.body.innerText";
            assert!(begun.elapsed() < Duration::from_secs(60), "{expression}: {}", self.value(shown()));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Types a text into the element with the focus.
    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text })).expect("the browser runs");
    }

    /// Presses a key, with Ctrl perhaps.
    pub fn press(&mut self, key: &str, code: u32, with_ctrl: bool) {
        for kind in ["rawKeyDown", "keyUp"] {
            let modifiers = if with_ctrl { 2 } else { 0 };
            let event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers,
            });
            self.call("Input.dispatchKeyEvent", event).expect("the browser runs");
        }
    }

    /// Sends a header with every request from now on, and shows the page again.
    pub fn send_header(&mut self, name: &str, value: &str) {
        self.call("Network.enable", json!({})).expect("the browser runs");
        let headers = json!({ "headers": { name: value } });
        self.call("Network.setExtraHTTPHeaders", headers).expect("the browser runs");
        self.call("Page.reload", json!({})).expect("the browser runs");
    }

    /// As a phone's screen, so many pixels wide.
    pub fn set_width(&mut self, width: u32) {
        let size = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": true });
        self.call("Emulation.setDeviceMetricsOverride", size).expect("the browser runs");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
