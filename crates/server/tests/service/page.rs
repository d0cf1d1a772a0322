//! The page in a real browser, with a live server and clients behind it.

use lockspan_server::{Config, Data, Server};
use lockspan_wire::Value;

use crate::browser::Browser;
use crate::client::{Client, fresh, number, start, until};
use crate::http::with_page;

/// Clients that hold and wait: two sessions want `invoice:42`, which a third one holds, and so on.
pub(crate) struct Scene {
    pub(crate) server: Server,
    clients: Vec<Client>,
    pub(crate) sessions: Vec<String>,
    /// Their public ids.
    pub(crate) ids: Vec<String>,
}

impl Scene {
    pub(crate) async fn new(config: Config) -> Self {
        let server = start(with_page(config)).await;
        let (mut clients, mut sessions, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..4 {
            let mut client = Client::new(&server).await;
            client.ask(&["CLIENT", "SETNAME", &format!("worker-{at}")]).await;
            let label = format!("worker-{at}@host{at}[41{at}]");
            let session = client.open(&["LEASE", "60000", "EVENTS", "push", "LABEL", &label]).await;
            ids.push(client.id_of(&session).await);
            sessions.push(session);
            clients.push(client);
        }
        let mut scene = Self { server, clients, sessions, ids };
        scene.take(0, "invoice:42", "W").await;
        for (at, mode) in [(1, "W"), (2, "R"), (3, "W")] {
            scene.wait(at, "invoice:42", mode).await;
        }
        for at in [0, 1, 2] {
            scene.take(at, "config:site <b>", "R").await;
        }
        for number in 0..60 {
            scene.take(3, &format!("order:{number}"), "W").await;
        }
        scene.take(1, "stock:7", "W").await;
        scene.wait(0, "stock:7", "R").await;
        scene
    }

    pub(crate) async fn take(&mut self, at: usize, record: &str, mode: &str) -> i64 {
        let session = self.sessions[at].clone();
        let words = ["LS.ACQUIRE", &session, record, mode, "NOTE", "import & check"];
        let granted = self.clients[at].ask(&words).await;
        number(&granted, "seq")
    }

    pub(crate) async fn wait(&mut self, at: usize, record: &str, mode: &str) {
        let session = self.sessions[at].clone();
        let queued = self.clients[at].ask(&["LS.ACQUIRE", &session, record, mode]).await;
        assert!(format!("{queued:?}").contains("queued"), "{queued:?}");
    }

    /// A command of one of the clients.
    pub(crate) async fn ask(&mut self, at: usize, words: &[&str]) -> Value {
        self.clients[at].ask(words).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.server.http_address().expect("it has a page"))
    }

    /// Two owners that wait for each other; one is refused.
    pub(crate) async fn deadlock(&mut self) {
        let own = |at: usize, record: &'static str, owner: &'static str, session: String| {
            (at, [session, record.to_owned(), owner.to_owned()])
        };
        let [one, two] = [self.sessions[2].clone(), self.sessions[3].clone()];
        for (at, [session, record, owner]) in [
            own(2, "account:a", "7", one.clone()),
            own(3, "account:b", "8", two.clone()),
            own(2, "account:b", "7", one),
        ] {
            let words = ["LS.ACQUIRE", &session, &record, "W", "OWNER", &owner];
            self.clients[at].ask(&words).await;
        }
        let words = ["LS.ACQUIRE", &two, "account:a", "W", "OWNER", "8"];
        let reply = self.clients[3].ask(&words).await;
        if !matches!(reply, Value::Error { .. }) {
            let server = &self.server;
            until("one of them is refused", || server.stats().deadlocks > 0).await;
        }
    }
}

pub(crate) fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    // The browser is waited for without a runtime.
    let work = std::thread::spawn(work);
    tokio::task::block_in_place(|| {
        work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

pub(crate) const ROWS: &str = "document.querySelectorAll('main tbody tr').length";

#[tokio::test(flavor = "multi_thread")]
async fn people_see_who_holds_and_who_waits() {
    let mut scene = Scene::new(fresh()).await;
    scene.deadlock().await;
    let (url, holder) = (scene.url(), scene.ids[0].clone());
    let browser = on_thread(move || {
        let mut browser = Browser::start();
        browser.screen(1280, 1000, false);
        browser.open(&url);
        browser.until("document.querySelector('#link')?.dataset.is === 'live'");
        browser.until(&format!("{ROWS} === 50"));
        browser.until("document.querySelectorAll('#plots svg').length === 3");
        browser.until("document.querySelector('#tiles').innerText.includes('Sessions')");
        browser.picture("records-light");
        // The most wanted record is the first; holder and waiters are shown by their labels.
        let first = browser.eval("document.querySelector('main tbody tr').innerText");
        let first = first.as_str().expect("text").to_owned();
        // Percentiles are called by their names.
        browser.until("document.querySelectorAll('#plots figure').length === 3");
        let waits = browser.eval("document.querySelectorAll('#plots figure')[1].textContent");
        let waits = waits.as_str().expect("text").to_owned();
        assert!(waits.contains("p50") && waits.contains("p99"), "{waits}");
        for part in ["invoice:42", "worker-0@host0[410] (import & check)", "1. read worker-2@host2"]
        {
            assert!(first.contains(part), "{part}: {first}");
        }

        // A name that looks like HTML is text.
        search(&mut browser, "site");
        browser.until(&format!("{ROWS} === 1"));
        let name = browser.eval("document.querySelector('main tbody th').innerText");
        assert_eq!(name, "config:site <b>");
        search(&mut browser, "order:*9");
        browser.until(&format!("{ROWS} === 6"));
        search(&mut browser, "");
        browser.until(&format!("{ROWS} === 50"));

        // The next page, by the keyboard alone.
        browser.eval("document.querySelectorAll('.pager button')[1].focus()");
        browser.key("Enter", 13, "\r");
        browser.until(&format!("{ROWS} > 0 && {ROWS} < 50"));
        browser.until("document.querySelector('#said').innerText.includes('page 2')");
        browser.eval("document.querySelectorAll('.pager button')[0].click()");
        browser.until(&format!("{ROWS} === 50"));

        browser.eval("document.querySelector('#only').click()");
        browser.until("document.querySelector('main').innerText.includes('stock:7')");
        browser.until(&format!("{ROWS} === 3"));
        browser.screen(1280, 1000, true);
        browser.picture("wanted-dark");

        browser.eval("location.hash = '#record/invoice%3A42'");
        browser.until("document.querySelector('main .head h2').innerText === 'invoice:42'");
        browser.until("document.querySelectorAll('main table').length === 3");
        browser.until("document.querySelectorAll('main table')[1].tBodies[0].rows.length === 3");
        let line = browser.eval("document.querySelectorAll('main table')[1].innerText");
        let line = line.as_str().expect("text").to_owned();
        assert!(line.contains("write") && line.contains("worker-2@host2[412]"), "{line}");
        let held = browser.eval("document.querySelector('main table').innerText");
        let held = held.as_str().expect("text").to_owned();
        for part in ["worker-0@host0[410]", "import & check", "Expires in"] {
            assert!(held.contains(part), "{part}: {held}");
        }
        let history = browser.eval("document.querySelectorAll('main table')[2].innerText");
        let history = history.as_str().expect("text").to_owned();
        for word in ["granted", "waits", "asked to release", "worker-0@host0[410]"] {
            assert!(history.contains(word), "{word}: {history}");
        }
        browser.picture("record-dark");

        browser.eval(&format!("location.hash = '#session/{holder}'"));
        browser.until("document.querySelector('main').innerText.includes('worker-0')");
        browser.until("document.querySelector('main').innerText.includes('waiter')");
        browser.picture("session-dark");
        browser.eval("location.hash = '#sessions'");
        browser.until(&format!("{ROWS} === 4"));
        browser.screen(1280, 1000, false);
        browser.picture("sessions-light");
        browser.eval("location.hash = '#graph'");
        browser.until("document.querySelectorAll('.chart .edge').length >= 4");
        browser.until("document.querySelector('.chart').innerText.includes('worker-0@host0')");
        browser.until("document.querySelector('.deadlocks').innerText.includes('→')");
        browser.picture("graph-light");
        browser.screen(1280, 1000, true);
        browser.picture("graph-dark");

        browser.screen(390, 844, true);
        for hash in ["records", "record/invoice%3A42", "sessions", "graph"] {
            browser.eval(&format!("location.hash = '#{hash}'"));
            browser.until("document.querySelector('main table')");
            browser.until(&format!("{ROWS} > 0"));
            let wide = browser.eval("document.documentElement.scrollWidth - innerWidth");
            assert!(wide.as_i64().is_some_and(|wide| wide <= 0), "{hash} is {wide} px too wide");
            let tops = "['main', '#now'].map(it => $(it).getBoundingClientRect().top)";
            let tops = browser.eval(tops);
            assert!(tops[0].as_f64() < tops[1].as_f64(), "{hash}: plots come first: {tops}");
            browser.picture(&format!("{}-phone", hash.split('/').next().unwrap_or("none")));
        }
        browser
    });
    let origin = scene.url();
    let strange: Vec<_> = browser.asked.iter().filter(|url| !url.starts_with(&origin)).collect();
    assert!(strange.iter().all(|url| *url == "about:blank"), "{strange:?}");
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
    drop(browser);
    scene.server.stop().await;
}

pub(crate) fn search(browser: &mut Browser, text: &str) {
    browser.eval(&format!(
        "(() => {{ const field = document.querySelector('#match'); field.value = '{text}'; \
         field.dispatchEvent(new Event('input')); }})()"
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_is_seen_without_a_reload() {
    let mut scene = Scene::new(fresh()).await;
    let url = scene.url();
    let mut browser = on_thread(move || {
        let mut browser = Browser::start();
        browser.open(&format!("{url}#record/live%3A1"));
        browser.until("document.querySelector('main').innerText.includes('No holders')");
        browser.eval("window.sameDocument = true");
        browser
    });
    let seq = scene.take(2, "live:1", "W").await;
    let browser_after = on_thread(move || {
        browser.until("!document.querySelector('main').innerText.includes('No holders')");
        browser
    });
    let session = scene.sessions[2].clone();
    scene.clients[2].ask(&["LS.RELEASE", &session, "live:1", &seq.to_string()]).await;
    let mut browser = browser_after;
    let browser = on_thread(move || {
        browser.until("document.querySelector('main').innerText.includes('released')");
        browser.until("document.querySelector('main').innerText.includes('No holders')");
        assert_eq!(browser.eval("window.sameDocument"), true);
        browser
    });
    drop(browser);
    scene.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_ends_a_session_and_takes_back_a_record() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = Data::Dir(dir.path().to_owned());
    let mut scene = Scene::new(Config { data, ..fresh() }).await;
    let secret = std::fs::read_to_string(dir.path().join("operator.secret")).expect("it is there");
    let (url, session) = (scene.url(), scene.ids[3].clone());
    let secret = secret.trim().to_owned();
    let seq = scene.take(2, "loose:1", "W").await;
    let mut browser = on_thread(move || {
        let mut browser = Browser::start();
        browser.screen(1280, 1000, true);
        browser.open(&format!("{url}#session/{session}"));
        browser.until("document.querySelector('main button.danger')?.disabled === false");
        browser.until("document.querySelector('#login-how').innerText.includes('operator.secret')");
        browser.eval("document.querySelector('main button.danger').click()");
        browser.until("document.querySelector('#login').open");
        browser.picture("login-dark");
        let fill = |password: &str| {
            format!(
                "document.querySelector('#user').value = 'operator'; \
                 document.querySelector('#password').value = '{password}'; \
                 document.querySelector('#login [type=submit]').click()"
            )
        };
        browser.eval(&fill("a wrong one"));
        browser.until("document.querySelector('#login .problem').innerText.includes('wrong user')");
        browser.eval(&fill(&secret));
        browser.until("document.querySelector('#confirm').open");
        let text = browser.eval("document.querySelector('#confirm').innerText");
        let text = text.as_str().expect("text").to_owned();
        assert!(text.contains("no longer renewed") && text.contains("61 records"), "{text}");
        browser.picture("confirm-dark");
        browser.eval("document.querySelector('#confirm [type=submit]').click()");
        browser.until("document.querySelector('main').innerText.includes('no longer renewed')");
        browser.until("document.querySelector('main [data-until]')?.textContent.includes(' s')");
        assert_eq!(browser.eval("document.querySelector('main button.danger').disabled"), true);
        browser.picture("ending-dark");

        browser.eval("location.hash = '#record/loose%3A1'");
        browser.until("document.querySelector('main button.danger')?.disabled === false");
        browser.eval("document.querySelector('main button.danger').click()");
        browser.until("document.querySelector('#confirm').open");
        browser.eval("document.querySelector('#confirm [type=submit]').click()");
        browser.until("document.querySelector('main').innerText.includes('for a write')");
        browser
    });
    // The client of the first hears that it is not extended; what it holds it keeps for now.
    let id = scene.sessions[3].clone();
    let (_, why) = scene.clients[3].refused(&["LS.KEEP", &id]).await;
    assert!(why.contains("no longer extended"), "{why}");
    let held = scene.clients[0].ask(&["LS.INSPECT", "order:1"]).await;
    assert!(format!("{held:?}").contains("alone"), "{held:?}");
    // The client of the second gives it up, and nobody has it then.
    let id = scene.sessions[2].clone();
    scene.clients[2].ask(&["LS.RELEASE", &id, "loose:1", &seq.to_string()]).await;
    let browser = on_thread(move || {
        browser.until("document.querySelector('main').innerText.includes('No holders')");
        browser
    });
    drop(browser);
    // The first confirms: its records are free at once.
    let id = scene.sessions[3].clone();
    scene.clients[3].ask(&["LS.CLOSE", &id]).await;
    let held = scene.clients[0].ask(&["LS.INSPECT", "order:1"]).await;
    assert!(format!("{held:?}").contains("free"), "{held:?}");
    scene.server.stop().await;
}
