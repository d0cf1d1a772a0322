//! The graph of the page: what it says blocks what is what does.

use serde_json::json;

use crate::browser::Browser;
use crate::client::fresh;
use crate::page::{Scene, on_thread};

/// Pairs of texts in the graph that overlap, and texts that leave their boxes.
const OVERLAPS: &str = "(() => {
  const texts = [...document.querySelectorAll('.chart text')].filter(it => it.textContent);
  const rects = texts.map(text => {
    const box = text.ownerSVGElement, bounds = text.getBBox();
    const at = name => box[name].baseVal.value;
    const width = Math.min(bounds.x + bounds.width, at('width'));
    const [x, y] = [at('x'), at('y')];
    return { text: text.textContent, x, y, right: x + width, low: y + at('height') };
  });
  return rects.flatMap((one, at) => rects.slice(at + 1).filter(other =>
    one.x < other.right && other.x < one.right && one.y < other.low && other.y < one.low)
    .map(other => `${one.text} | ${other.text}`));
})()";

#[tokio::test(flavor = "multi_thread")]
async fn the_graph_shows_what_blocks_what() {
    let mut scene = Scene::new(fresh()).await;
    // Readers hold it, a writer waits for them, and a reader waits behind the writer.
    scene.take(0, "shared:1", "R").await;
    scene.take(1, "shared:1", "R").await;
    scene.wait(2, "shared:1", "W").await;
    scene.wait(3, "shared:1", "R").await;
    // Long texts, which have to be cut.
    let session = scene.sessions[3].clone();
    scene.ask(3, &["LS.LABEL", &session, &"long ".repeat(50)]).await;
    let long = format!("long:{}", "name".repeat(50));
    scene.take(3, &long, "W").await;
    scene.wait(2, &long, "R").await;
    let (url, ids) = (scene.url(), scene.ids.clone());
    let browser = on_thread(move || {
        let mut browser = Browser::start();
        browser.screen(1280, 1400, false);
        browser.open(&format!("{url}#graph"));
        browser.until("document.querySelectorAll('.chart .record').length === 4");
        let edges = browser.eval(
            "[...document.querySelectorAll('.chart .edge')].map(it => \
             `${it.dataset.from} ${it.classList[1]} ${it.dataset.to}`).sort()",
        );
        let name = |text: &str| {
            let known = ids.iter().zip(0..).map(|(id, at): (_, i32)| (id.as_str(), at));
            let named =
                known.fold(text.to_owned(), |text, (id, at)| text.replace(id, &at.to_string()));
            named.replace("%3A", ":").replace(&"name".repeat(50), "")
        };
        let edges: Vec<_> = edges.as_array().expect("a list").iter().collect();
        let mut edges: Vec<_> =
            edges.iter().map(|it| name(it.as_str().unwrap_or_default())).collect();
        edges.sort();
        assert_eq!(
            edges,
            [
                "0 waits stock:7",
                "1 waits 2",
                "2 waits invoice:42",
                "2 waits long:",
                "2 waits shared:1",
                "3 waits 1",
                "3 waits 2",
                "invoice:42 held 0",
                "long: held 3",
                "shared:1 held 0",
                "shared:1 held 1",
                "stock:7 held 1",
            ]
        );
        // The table says the same: a reader behind a writer does not wait for readers.
        let rows = "[...document.querySelectorAll('main tbody tr')].map(row => row.innerText)";
        let rows = browser.eval(rows).to_string();
        assert!(rows.contains("shared:1\\t2\\t\\nwaiter write worker-2@host2[412]"), "{rows}");
        assert!(rows.contains("shared:1\\t1\\t\\nholder read worker-0@host0[410]"), "{rows}");
        // Waiters are left of their record and in their order, holders right of it.
        let places = browser.eval(
            "['waiter', 'record', 'holder'].map(kind => [...new Set([...document.querySelectorAll(\
             `.chart .${kind} rect`)].map(it => it.x.baseVal.value))])",
        );
        let at = |kind: usize| {
            assert_eq!(places[kind].as_array().map(Vec::len), Some(1), "{places}");
            places[kind][0].as_f64().expect("a place")
        };
        assert!(at(0) < at(1) && at(1) < at(2), "{places}");
        assert_eq!(browser.eval(OVERLAPS), json!([]));
        browser.picture("graph-long");
        browser
    });
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
    drop(browser);
    scene.server.stop().await;
}
