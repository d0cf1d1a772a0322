//! The lists of the page: their order, and their search, order and page in the address.

use crate::browser::Browser;
use crate::client::{fresh, start};
use crate::http::{get, with_page};
use crate::page::{ROWS, Scene, on_thread, search};

/// Names of the records that are shown, from the first on.
const NAMES: &str = "[...document.querySelectorAll('main tbody th')].map(it => it.innerText)";

/// Waits until the first records are these.
fn begins(browser: &mut Browser, names: &[&str]) {
    let names = serde_json::json!(names).to_string();
    browser.until(&format!(
        "JSON.stringify({NAMES}.slice(0, {names}.length)) === JSON.stringify({names})"
    ));
}

/// Loads the page again, as somebody does who was sent its address.
fn reload(browser: &mut Browser) {
    browser.eval("window.isOld = true; location.reload()");
    browser.until("!window.isOld && document.querySelector('main tbody tr')");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_sorted_by_waiters_age_and_name() {
    let scene = Scene::new(fresh()).await;
    let url = scene.url();
    let browser = on_thread(move || {
        let mut browser = Browser::start();
        browser.open(&url);
        // Three wait for the first, one for the second; then those that are held longest.
        begins(&mut browser, &["invoice:42", "stock:7", "config:site <b>", "order:0", "order:1"]);
        let sorted = "document.querySelector('th[aria-sort]').innerText";
        assert_eq!(browser.eval(sorted), "Waiters, in order");
        browser.eval("document.querySelector('[data-sort=name]').click()");
        begins(&mut browser, &["config:site <b>", "invoice:42", "order:0", "order:1", "order:10"]);
        assert_eq!(browser.eval(sorted), "Record");
        assert_eq!(browser.eval("location.hash"), "#records?sort=name");
        browser.eval(
            "(() => { const sort = document.querySelector('#sort'); sort.value = 'age'; \
             sort.dispatchEvent(new Event('change')); })()",
        );
        begins(&mut browser, &["invoice:42", "config:site <b>", "order:0", "order:1", "order:2"]);
        assert_eq!(browser.eval("location.hash"), "#records?sort=age");
        browser
    });
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
    drop(browser);
    scene.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn search_order_and_page_are_in_the_address() {
    let scene = Scene::new(fresh()).await;
    let url = scene.url();
    let browser = on_thread(move || {
        let mut browser = Browser::start();
        browser.open(&format!("{url}#records?sort=name"));
        browser.until(&format!("{ROWS} === 50"));
        browser.eval("document.querySelectorAll('.pager button')[1].click()");
        begins(&mut browser, &["order:52"]);
        assert_eq!(browser.eval("location.hash"), "#records?sort=name&page=2");
        reload(&mut browser);
        begins(&mut browser, &["order:52"]);
        assert_eq!(browser.eval("document.querySelector('#sort').value"), "name");
        browser.until("document.querySelector('.pager').innerText.includes('page 2 of 2')");
        // What is typed in one go is one step back, however many letters it has.
        for text in ["o", "order:1", "order:1?"] {
            search(&mut browser, text);
            browser.until(&format!(
                "new URLSearchParams(location.hash.split('?')[1]).get('match') === '{text}'"
            ));
        }
        browser.until(&format!("{ROWS} === 10"));
        begins(&mut browser, &["order:10", "order:11"]);
        reload(&mut browser);
        browser.until(&format!("{ROWS} === 10"));
        assert_eq!(browser.eval("document.querySelector('#match').value"), "order:1?");
        // From the record back to the search, and from the search to the page before it.
        browser.eval("document.querySelector('main tbody a').click()");
        browser.until("document.querySelector('main .head h2')?.innerText === 'order:10'");
        browser.eval("history.back()");
        browser.until("document.querySelector('#match')?.value === 'order:1?'");
        browser.until(&format!("{ROWS} === 10"));
        browser.eval("history.back()");
        browser.until("document.querySelector('#match')?.value === ''");
        begins(&mut browser, &["order:52"]);
        browser.eval("history.back()");
        begins(&mut browser, &["config:site <b>"]);

        // Sessions too.
        browser.eval("location.hash = '#sessions?match=worker-2'");
        browser.until(&format!("{ROWS} === 1"));
        assert_eq!(browser.eval(&format!("{NAMES}[0]")), "worker-2@host2[412]");
        reload(&mut browser);
        browser.until(&format!("{ROWS} === 1"));
        assert_eq!(browser.eval("document.querySelector('#match').value"), "worker-2");
        browser
    });
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
    drop(browser);
    scene.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_makes_no_sense_shows_the_nearest_list_or_says_why_not() {
    let scene = Scene::new(fresh()).await;
    let url = scene.url();
    let browser = on_thread(move || {
        let mut browser = Browser::start();
        browser.open(&format!("{url}#records?sort=size&page=-3&only=all&more=1"));
        begins(&mut browser, &["invoice:42", "stock:7"]);
        browser.eval("location.hash = '#records?page=9999'");
        browser
            .until("document.querySelector('main').innerText.includes('No record on this page')");
        browser.eval("document.querySelector('.pager button').click()");
        browser.until("document.querySelector('.pager').innerText.includes('page 2 of 2')");
        browser.eval("location.hash = '#records?match=' + 'x'.repeat(513)");
        browser.until("document.querySelector('main').innerText.includes('has 513 bytes')");
        browser.eval("location.hash = '#records'");
        begins(&mut browser, &["invoice:42", "stock:7"]);
        browser
    });
    drop(browser);
    scene.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_cannot_be_sorted_so_is_refused() {
    let server = start(with_page(fresh())).await;
    for (query, why) in [
        ("sort=size", "must be waiters, age or name"),
        ("only=held", "must be waiting"),
        ("page=0", "not between 1 and 200"),
        ("page=201", "search for a part of the name instead"),
        ("page=51&count=200", "not between 1 and 50"),
        ("page=x", "not a number"),
    ] {
        let answer = get(&server, &format!("/api/view?view=records&{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
        let said = answer.json()["error"].as_str().unwrap_or_default().to_owned();
        assert!(said.contains(why), "{query}: {said}");
    }
    server.stop().await;
}
