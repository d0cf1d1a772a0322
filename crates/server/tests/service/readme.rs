//! The picture of the page that README shows, taken from a real server with clients.
//!
//! `LOCKSPAN_SCREENSHOTS=$PWD/docs/images cargo nextest run -p lockspan-server readme_shows` takes
//! it again.

use lockspan_server::Server;

use crate::browser::Browser;
use crate::client::{Client, fresh, number, start};
use crate::http::with_page;
use crate::page::on_thread;

/// A client with a session of this name.
struct Named {
    client: Client,
    session: String,
}

impl Named {
    async fn new(server: &Server, label: &str) -> Self {
        let mut client = Client::new(server).await;
        let session = client.open(&["LEASE", "60000", "LABEL", label]).await;
        Self { client, session }
    }

    /// Asks for a record, and returns the number of the acquire.
    async fn acquire(&mut self, record: &str, mode: &str, note: Option<&str>) -> i64 {
        let mut words = vec!["LS.ACQUIRE", &*self.session, record, mode];
        words.extend(note.iter().flat_map(|note| ["NOTE", note]));
        number(&self.client.ask(&words).await, "seq")
    }

    async fn release(&mut self, record: &str, seq: i64) {
        let words = ["LS.RELEASE", &*self.session, record, &seq.to_string()];
        self.client.ask(&words).await;
    }
}

/// A record, the mode in which it is asked for, and a note.
type Wish = (&'static str, &'static str, Option<&'static str>);

/// Sessions, each with the records that it asks for, in this order.
const SCENE: [(&str, &[Wish]); 11] = [
    ("billing@host9[412]", &[("invoice:42", "W", Some("nightly import"))]),
    ("web@host1[1207]", &[("config:site", "R", None), ("cart:7731", "W", None)]),
    ("web@host2[1190]", &[("config:site", "R", None), ("cart:7740", "W", None)]),
    ("billing@host4[88]", &[("invoice:42", "W", Some("month end"))]),
    ("reports@host3[97]", &[("invoice:42", "R", None), ("report:2026-11", "W", None)]),
    ("audit@host3[1201]", &[("invoice:42", "R", None), ("report:2026-11", "R", None)]),
    ("deploy@ci1[77]", &[("config:site", "W", Some("release 8.2")), ("release:8.2", "W", None)]),
    ("web@host5[1211]", &[("config:site", "R", None)]),
    ("backup.sh@host9[3310]", &[("backup:nightly", "W", Some("full backup"))]),
    ("worker@host6[20]", &[("order:1001", "W", None), ("order:1002", "W", None)]),
    ("worker@host7[21]", &[("order:1003", "W", None)]),
];

#[tokio::test(flavor = "multi_thread")]
async fn readme_shows_the_page() {
    let server = start(with_page(fresh())).await;
    let mut all = Vec::new();
    for (label, wishes) in SCENE {
        let mut named = Named::new(&server, label).await;
        for &(record, mode, note) in wishes {
            named.acquire(record, mode, note).await;
        }
        all.push(named);
    }
    let url = format!("http://{}/", server.http_address().expect("it has a page"));
    // A picture for people has plots, a test need not wait for them.
    let seconds = if std::env::var_os("LOCKSPAN_SCREENSHOTS").is_some() { 45 } else { 1 };
    let looking = std::thread::spawn(move || {
        let mut browser = Browser::start();
        browser.screen(1280, 980, false);
        browser.open(&url);
        browser.until("document.querySelectorAll('main tbody tr').length >= 10");
        while browser.eval("Page.samples.length").as_i64() < Some(seconds) {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        browser.picture("page");
        browser
    });
    // Somebody works meanwhile: two sessions take turns at a record.
    let mut one = Named::new(&server, "worker@host6[22]").await;
    let mut two = Named::new(&server, "worker@host7[23]").await;
    while !looking.is_finished() {
        let seq = one.acquire("stock:7", "W", None).await;
        let next = two.acquire("stock:7", "W", None).await;
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        one.release("stock:7", seq).await;
        two.release("stock:7", next).await;
    }
    let browser = on_thread(move || looking.join().expect("a picture"));
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
    drop((browser, all));
    server.stop().await;
}
