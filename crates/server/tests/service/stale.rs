//! The page without its server, and with one that has just been restarted.

use lockspan_server::{Config, Data, Http};

use crate::browser::Browser;
use crate::client::{fresh, start};
use crate::page::{Scene, on_thread};

#[tokio::test(flavor = "multi_thread")]
async fn stale_data_looks_stale_and_a_recovery_says_for_whom_it_waits() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = || Config { data: Data::Dir(dir.path().to_owned()), ..fresh() };
    let scene = Scene::new(config()).await;
    let (url, ids) = (scene.url(), scene.ids.clone());
    let at = scene.server.http_address().expect("it has a page");
    let mut browser = on_thread(move || {
        let mut browser = Browser::start();
        browser.screen(1280, 1000, false);
        browser.open(&url);
        browser.until("document.querySelector('#link')?.dataset.is === 'live'");
        browser.until("document.querySelector('main tbody tr')?.innerText.includes('invoice:42')");
        assert_eq!(browser.eval("document.querySelector('#notice').hidden"), true);
        assert_eq!(browser.eval("document.body.classList.contains('stale')"), false);
        browser
    });
    scene.server.stop().await;
    let mut browser = on_thread(move || {
        browser.until("document.body.classList.contains('stale')");
        browser.until(r"/data from \d.* s ago/.test(document.querySelector('#notice').innerText)");
        for part in ["main", "#now"] {
            let dim = format!("Number(getComputedStyle(document.querySelector('{part}')).opacity)");
            assert!(browser.eval(&dim).as_f64() < Some(0.6), "{part} looks as if it were live");
        }
        // The old data stays, and its ages do not go on.
        browser.until("document.querySelector('main tbody tr')?.innerText.includes('invoice:42')");
        let age = "document.querySelector('main [data-since]').textContent";
        let before = browser.eval(age);
        browser.eval("tick(); tick()");
        assert_eq!(browser.eval(age), before);
        browser.picture("stale-light");
        browser.screen(390, 844, true);
        browser.picture("stale-phone");
        browser.screen(1280, 1000, false);
        browser
    });
    let http = Some(Http { at, required: true });
    let server = start(Config { http, ..config() }).await;
    let browser = on_thread(move || {
        browser.until("!document.body.classList.contains('stale')");
        browser.until("document.querySelector('#link').dataset.is === 'waiting'");
        browser.until("document.querySelector('#notice').innerText.includes('Recovering')");
        let text = browser.eval("document.querySelector('#notice').innerText");
        let text = text.as_str().expect("text").to_owned();
        // Three of the four are named; a session that has not come back has told no label yet.
        let named = ids.iter().filter(|id| text.contains(id.as_str())).count();
        assert_eq!(named, 3, "{ids:?}: {text}");
        for part in ["and 1 more session", "s more (until ", "no record is granted"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let main = "document.querySelector('main').innerText";
        browser.until(&format!("{main}.includes('No session has re-asserted')"));
        browser.picture("recovering-light");
        browser.eval("location.hash = '#record/invoice%3A42'");
        browser.until("document.querySelector('main .tag')?.innerText === 'recovering'");
        browser
    });
    drop(browser);
    server.stop().await;
}
