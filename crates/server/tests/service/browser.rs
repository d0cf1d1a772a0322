//! A real Chromium without a window, driven by its DevTools protocol through a pair of pipes.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value as Json, json};

/// Whatever takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(60);

/// A browser with one page.
#[derive(Debug)]
pub(crate) struct Browser {
    child: Child,
    to: File,
    from: Receiver<Json>,
    last: u64,
    page: String,
    /// What the page said that it should not, and where it asked for what.
    pub(crate) complaints: Vec<String>,
    pub(crate) asked: Vec<String>,
    _dir: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Browser {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let (to, from) = (dir.path().join("to"), dir.path().join("from"));
        for path in [&to, &from] {
            mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        }
        // The browser reads from 3 and writes to 4.
        let script = "exec chromium --headless=new --no-sandbox --disable-gpu --no-first-run \
                      --disable-dev-shm-usage --disable-background-networking --disable-sync \
                      --disable-component-update --hide-scrollbars --remote-debugging-pipe \
                      --user-data-dir=\"$1/profile\" about:blank 3<\"$1/to\" 4>\"$1/from\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(dir.path());
        command.env("HOME", dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let works = Command::new("chromium").arg("--version").stdout(Stdio::null()).status();
        assert!(works.is_ok_and(|status| status.success()), "these tests need chromium");
        let child = command.spawn().expect("a shell");
        let to = OpenOptions::new().write(true).open(to).expect("it reads");
        let from = listen(&from);
        let (page, complaints, asked) = Default::default();
        let mut browser = Self { child, to, from, last: 0, page, complaints, asked, _dir: dir };
        let target = browser.tell("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.tell("Target.attachToTarget", target);
        browser.page = session["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Runtime", "Log", "Network", "Page"] {
            browser.tell(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Says something and waits for the answer.
    pub(crate) fn tell(&mut self, method: &str, params: Json) -> Json {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if !self.page.is_empty() {
            message["sessionId"] = json!(self.page);
        }
        write!(self.to, "{message}\0").expect("it reads");
        let deadline = Instant::now() + DEADLINE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let heard = self.from.recv_timeout(left);
            let heard = heard.unwrap_or_else(|why| panic!("no answer to {method}: {why}"));
            if heard["id"] == json!(self.last) {
                assert!(heard["error"].is_null(), "{method}: {}", heard["error"]);
                return heard["result"].clone();
            }
            self.note(&heard);
        }
    }

    fn note(&mut self, heard: &Json) {
        let params = &heard["params"];
        match heard["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => {
                self.complaints.push(params["exceptionDetails"].to_string());
            }
            "Log.entryAdded" if params["entry"]["level"] == "error" => {
                self.complaints.push(params["entry"].to_string());
            }
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                self.asked.push(url.to_owned());
            }
            _ => {}
        }
    }

    /// The size of the screen, and whether its user likes it dark.
    pub(crate) fn screen(&mut self, width: u32, height: u32, dark: bool) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.tell("Emulation.setDeviceMetricsOverride", size);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.tell("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.tell("Page.navigate", json!({ "url": url }));
    }

    /// The value of an expression in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Json {
        let params = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true,
            "userGesture": true,
        });
        let result = self.tell("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + DEADLINE;
        let tried = format!("(() => {{ try {{ return Boolean({expression}) }} catch {{}} }})()");
        while self.eval(&tried) != json!(true) {
            if Instant::now() > deadline {
                let text = self.eval("document.body.innerText");
                panic!("never: {expression}\n{text}\n{:?}", self.complaints);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses a key and lets it go.
    pub(crate) fn key(&mut self, key: &str, code: u32, text: &str) {
        for kind in ["keyDown", "keyUp"] {
            let event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text,
            });
            self.tell("Input.dispatchKeyEvent", event);
        }
    }

    /// A picture of the page, which is written to `NAME.png` if `LOCKSPAN_SCREENSHOTS` names a
    /// directory.
    pub(crate) fn picture(&mut self, name: &str) {
        let shot = self.tell("Page.captureScreenshot", json!({ "captureBeyondViewport": false }));
        let png = from_base64(shot["data"].as_str().expect("a picture"));
        assert!(png.starts_with(b"\x89PNG"), "{name} is not a picture");
        let Some(dir) = std::env::var_os("LOCKSPAN_SCREENSHOTS") else { return };
        let path = Path::new(&dir).join(format!("{name}.png"));
        std::fs::write(&path, png).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break,
        };
        (bits, count) = (bits << 6 | u32::from(value), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

/// What the browser says, one message at a time.
fn listen(path: &Path) -> Receiver<Json> {
    let file = File::open(path).expect("it writes");
    let (sender, messages) = mpsc::channel();
    std::thread::spawn(move || {
        for message in BufReader::new(file).split(0) {
            let Ok(message) = message else { return };
            let Ok(message) = serde_json::from_slice(&message) else { return };
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    messages
}
