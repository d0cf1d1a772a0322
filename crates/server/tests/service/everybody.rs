//! The page for everybody: who may see it, who uses a keyboard, a screen reader or weak eyes.

use lockspan_server::Config;
use serde_json::{Value as Json, json};

use crate::browser::Browser;
use crate::client::{fresh, start};
use crate::http::with_page;
use crate::page::{Scene, on_thread};
use crate::users::{as_user, users};

/// Texts whose contrast with what is behind them is below 4.5 to 1, as WCAG 2 counts it.
const PALE: &str = include_str!("pale.js");

/// Things to use that have no name for a screen reader.
fn nameless(browser: &mut Browser) -> Vec<Json> {
    let tree = browser.tell("Accessibility.getFullAXTree", json!({}));
    let nodes = tree["nodes"].as_array().expect("a tree").clone();
    let used = ["button", "link", "textbox", "searchbox", "checkbox", "dialog", "table", "image"];
    let is_used = |node: &&Json| {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        node["ignored"] == false && used.contains(&role)
    };
    let is_nameless = |node: &Json| node["name"]["value"].as_str().is_none_or(str::is_empty);
    nodes.iter().filter(is_used).filter(|node| is_nameless(node)).cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_views_can_be_read_and_used_by_everybody() {
    let mut scene = Scene::new(fresh()).await;
    scene.deadlock().await;
    let (url, session) = (scene.url(), scene.ids[0].clone());
    let browser = on_thread(move || {
        let mut browser = Browser::start();
        browser.open(&url);
        browser.until("document.querySelectorAll('#plots svg').length === 3");
        for hash in ["records", "record/invoice%3A42", "sessions", "graph"]
            .map(str::to_owned)
            .into_iter()
            .chain([format!("session/{session}")])
        {
            browser.eval(&format!("location.hash = '#{hash}'"));
            browser.until("document.querySelectorAll('main tbody tr').length > 0");
            browser.until("!document.querySelector('main .none') || location.hash === '#graph'");
            for (width, dark) in [(1280, false), (1280, true), (390, false), (390, true)] {
                browser.screen(width, 900, dark);
                let pale = browser.eval(PALE);
                assert_eq!(pale, json!([]), "{hash}, {width} px, dark: {dark}");
            }
            let nameless = nameless(&mut browser);
            assert!(nameless.is_empty(), "{hash}: {nameless:?}");
            // One heading of the first order, a place for what is said, and none is skipped.
            assert_eq!(browser.eval("document.querySelectorAll('h1').length"), 1);
            let said = browser.eval("document.querySelectorAll('[role=status]').length");
            assert_eq!(said, 2);
        }
        // By the keyboard from the first thing on, the way is over what is seen.
        browser.screen(1280, 900, false);
        browser.open("about:blank");
        browser.open(&url);
        browser.until("document.querySelectorAll('main tbody tr').length > 0");
        let mut met = Vec::new();
        for _ in 0..12 {
            browser.key("Tab", 9, "");
            let at = browser.eval("document.activeElement.id || document.activeElement.hash || ''");
            met.push(at.as_str().unwrap_or_default().to_owned());
            let seen = browser.eval("getComputedStyle(document.activeElement).outlineStyle");
            assert_ne!(seen, "none", "{met:?}");
        }
        for wanted in ["theme", "login-open", "#sessions", "#graph", "match", "only"] {
            assert!(met.iter().any(|at| at == wanted), "{wanted} is not in {met:?}");
        }
        browser
    });
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
    drop(browser);
    scene.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_users_shows_itself_after_a_login_and_until_a_logout() {
    let dir = tempfile::tempdir().expect("a directory");
    let users = Some(users(dir.path()));
    let server = start(with_page(Config { users, ..fresh() })).await;
    let mut ann = as_user(&server, "ann").await;
    let session = ann.open(&["LEASE", "60000"]).await;
    ann.ask(&["LS.ACQUIRE", &session, "doc:<img src=x onerror=alert(1)>", "W"]).await;
    let url = format!("http://{}/", server.http_address().expect("it has a page"));
    let browser = on_thread(move || {
        let mut browser = Browser::start();
        browser.screen(390, 844, false);
        browser.open(&url);
        browser.until("document.querySelector('#login').open");
        browser.until("document.querySelector('main').innerText.includes('log in first')");
        browser.picture("users-phone");
        let log_in = "document.querySelector('#user').value = 'root'; \
                      document.querySelector('#password').value = 'toor'; \
                      document.querySelector('#login [type=submit]').click()";
        browser.eval(log_in);
        browser.until("document.querySelector('main tbody th')?.innerText.includes('<img src=x')");
        browser.until("document.querySelector('#link').dataset.is === 'live'");
        assert_eq!(browser.eval("document.querySelectorAll('main img').length"), 0);
        // A reload does not log out: the token is kept for this page.
        browser.eval("location.reload()");
        browser.until("document.querySelector('#login-open')?.innerText === 'Log out root'");
        browser.eval("location.hash = '#sessions'");
        browser.until("document.querySelector('main').innerText.includes('user ann')");
        for (text, rows) in [("nobody", "No matching session"), ("ann", "user ann")] {
            browser.eval(&format!(
                "(() => {{ const field = document.querySelector('#match'); field.value = '{text}'; \
                 field.dispatchEvent(new Event('input')); }})()"
            ));
            browser.until(&format!("document.querySelector('main').innerText.includes('{rows}')"));
        }
        browser.eval("document.querySelector('#login-open').click()");
        browser.until("document.querySelector('main').innerText.includes('log in first')");
        assert_eq!(browser.eval("document.body.innerText.includes('user ann')"), false);
        assert_eq!(browser.eval("localStorage.getItem('token')"), Json::Null);
        browser
    });
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
    drop(browser);
    server.stop().await;
}
