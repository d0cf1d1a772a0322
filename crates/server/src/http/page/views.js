// The views: each has its parts, says what to ask the server for, and shows what it answers.
'use strict';

// A table whose rows stay the same elements as long as their key is there, so that the focus stays.
function table(caption, columns) {
  const body = h('tbody', { role: 'rowgroup' });
  const text = h('caption', {}, caption);
  const head = columns.map(name => h('th', { scope: 'col', role: 'columnheader' }, name));
  // The roles are what the elements are; they get lost when a narrow screen shows rows as blocks.
  const whole = h('table', { role: 'table' }, text,
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, head)), body);
  const known = new Map();
  function fill(items, key, cells, empty) {
    const rows = items.map(item => {
      const id = key(item), sign = JSON.stringify(item);
      const old = known.get(id);
      if (old?.sign === sign) return old.row;
      const fresh = cells(item).map((cell, at) => at === 0
        ? h('th', { scope: 'row', role: 'rowheader' }, cell)
        : h('td', { role: 'cell', 'data-label': columns[at], class: cell?.dataset?.since || cell?.num ? 'num' : null }, cell ?? ''));
      if (!old) {
        const row = h('tr', { role: 'row' }, fresh);
        known.set(id, { row, sign });
        return row;
      }
      old.sign = sign;
      [...old.row.cells].forEach((cell, at) => cell.isEqualNode(fresh[at]) || cell.replaceWith(fresh[at]));
      return old.row;
    });
    const now = new Set(items.map(key));
    for (const id of known.keys()) if (!now.has(id)) known.delete(id);
    if (!rows.length) rows.push(h('tr', { role: 'row' }, h('td', { role: 'cell', class: 'none', colspan: columns.length }, empty)));
    const same = body.children.length === rows.length && rows.every((row, at) => row === body.children[at]);
    if (!same) {
      const focus = document.activeElement;
      body.replaceChildren(...rows);
      if (body.contains(focus)) focus.focus({ preventScroll: true });
    }
  }
  return { box: h('div', { class: 'wide' }, whole), fill, caption: text };
}

const since = at => h('time', { 'data-since': at });
const left = at => h('time', { 'data-until': at });
const mode = name => h('span', { class: `tag ${name}` }, name);
const sessionLink = id => h('a', { href: `#session/${id}`, class: 'mono', title: id }, Draw.short(id, 14));
// A name that is written from right to left turns nothing around it.
const recordLink = (name, key) => h('a', { href: `#record/${key}` }, h('bdi', {}, name));

function state(text) {
  return h('span', { class: text.includes('wanted') ? 'tag wanted' : 'tag' }, text);
}

// Some claims of a row, in order, and how many more there are.
function claims(list, more, numbered) {
  if (!list.length) return h('span', { class: 'soft' }, 'none');
  const shown = list.slice(0, 3);
  const rest = list.length - shown.length + more;
  return h(numbered ? 'ol' : 'ul', {},
    shown.map((claim, at) => h('li', {}, numbered ? `${at + 1}. ` : null, mode(claim.mode), ' ',
      sessionLink(claim.session), ' ', since(claim.since))),
    rest > 0 ? h('li', { class: 'more' }, `and ${count(rest)} more`) : null);
}

function pager(onStep) {
  const back = h('button', { type: 'button', onclick: () => onStep(-1) }, 'Back');
  const next = h('button', { type: 'button', onclick: () => onStep(1) }, 'Next');
  const text = h('p', {});
  return {
    box: h('div', { class: 'pager' }, back, next, text),
    show(hasBack, hasNext, words) {
      back.disabled = !hasBack;
      next.disabled = !hasNext;
      text.textContent = words;
    },
  };
}

// A field to search with; `again` is called when somebody has stopped typing.
function search(label, example, again, ...more) {
  const field = h('input', { id: 'match', type: 'search', autocomplete: 'off', spellcheck: 'false', placeholder: example, maxlength: '512' });
  let pause;
  field.oninput = () => {
    clearTimeout(pause);
    pause = setTimeout(again, 250);
  };
  const form = h('form', { class: 'search', role: 'search', onsubmit: event => { event.preventDefault(); again(); } },
    h('div', {}, h('label', { for: 'match' }, label), field), ...more);
  return { form, field };
}

const Views = {
  records() {
    const pages = [''];
    let next = null, announce = false;
    const only = h('input', { id: 'only', type: 'checkbox' });
    const again = () => {
      pages.length = 1;
      announce = true;
      Page.listen();
    };
    only.onchange = again;
    const { form, field } = search('Search by name (* and ? stand for anything)', 'invoice:4, or order:*7', again,
      h('div', { class: 'tick' }, only, h('label', { for: 'only' }, 'only records that somebody waits for')));
    const list = table('Records that are held or waited for', ['Record', 'State', 'Token', 'Held by', 'Waiting, in order']);
    const steps = pager(step => {
      if (step > 0 && next !== null) pages.push(next);
      if (step < 0 && pages.length > 1) pages.pop();
      announce = true;
      Page.listen();
    });
    return {
      title: 'Records',
      parts: [h('h2', { class: 'unseen' }, 'Records'), form, list.box, steps.box],
      ask: () => ({ view: 'records', match: field.value, only: only.checked ? 'waiting' : '', from: pages.at(-1) }),
      show(value) {
        next = value.next;
        list.fill(value.records, record => record.key, record => [
          recordLink(record.record, record.key), state(record.state),
          h('span', { class: 'mono' }, record.holders.map(it => it.token ?? '').sort().at(-1) || '–'),
          claims(record.holders, record.more_holders, false), claims(record.waiters, record.more_waiters, true),
        ], 'No such record is held or waited for.');
        const words = value.cut
          ? `those ${count(value.records.length)} that most wait for; there are more`
          : `${count(value.records.length)} of ${count(value.total)} records, page ${pages.length}`;
        steps.show(pages.length > 1, next !== null, words);
        if (announce) Page.say(words);
        announce = false;
      },
    };
  },

  record(key) {
    const title = h('h2', {}, decodeSafely(key));
    const tag = h('span', {});
    const button = h('button', { type: 'button', class: 'danger', disabled: true }, 'Take back…');
    const held = table('Held by', ['Session', 'Client', 'Mode', 'Token', 'For', 'Asked to give it up', 'Lease left']);
    const line = table('Waiting, in order', ['Session', 'Place', 'Mode', 'For']);
    const past = table('What happened lately', ['When', 'What', 'Session', 'More']);
    let name = decodeSafely(key);
    button.onclick = () => confirmed(`Take back ${name}?`,
      'Its holder is asked to give it up, as if somebody else wanted it, and does so when it is done with it. '
      + 'A holder that does not answer keeps it until its lease is over: to make sure that it does end, end its session.',
      'Take back', async () => {
        await post('/api/take-back', { key });
        Page.say(`${name} is asked for`);
      });
    return {
      title: name, key,
      parts: [h('p', {}, h('a', { href: '#records' }, 'All records')), h('div', { class: 'head' }, title, tag, button),
        h('h3', { class: 'unseen' }, 'Now'), held.box, h('h3', {}), line.box, h('h3', {}), past.box],
      ask: () => ({ view: 'record' }),
      show(value) {
        name = value.record;
        title.textContent = name;
        tag.replaceChildren(state(value.state));
        button.disabled = !value.holders.length;
        const lease = id => value.leases.find(it => it.session === id);
        const rows = value.holders.map(holder => ({ ...holder, lease: lease(holder.session) }));
        held.fill(rows, it => it.session, it => [
          sessionLink(it.session), it.lease ? clients(it.lease) : '–', mode(it.mode), h('span', { class: 'mono' }, it.token ?? 'reserved'), since(it.since),
          it.revoked ? h('span', { class: 'tag wanted' }, `for a ${it.revoked}`) : 'no',
          it.lease ? h('span', {}, left(it.lease.until), ' ', it.lease.last ? h('span', { class: 'tag ends' }, 'not renewed') : '') : '–',
        ], 'Nobody holds it.');
        const places = value.waiters.map((waiter, at) => ({ ...waiter, place: at + 1 }));
        line.fill(places, it => it.session, it => [sessionLink(it.session), h('span', {}, String(it.place)), mode(it.mode), since(it.since)],
          'Nobody waits for it.');
        const more = value.more_holders + value.more_waiters;
        line.caption.textContent = more ? `Waiting, in order (${count(more)} claims more are not shown)` : 'Waiting, in order';
        past.fill(value.history, it => `${it.at}-${it.session}-${it.what}`, it => [
          h('span', {}, since(it.at / 1000), ' ago'), it.what, sessionLink(it.session), details(it.data),
        ], 'Nothing that the server remembers.');
      },
    };
  },

  sessions() {
    const pages = [''];
    let next = null, announce = false;
    const { form, field } = search('Search by session, client or user (* and ? stand for anything)', 'worker-3, or 10.0.*', () => {
      pages.length = 1;
      announce = true;
      Page.listen();
    });
    const list = table('Open sessions', ['Session', 'Client', 'Lease', 'Left of it', 'Records', 'State']);
    const steps = pager(step => {
      if (step > 0 && next !== null) pages.push(next);
      if (step < 0 && pages.length > 1) pages.pop();
      announce = true;
      Page.listen();
    });
    return {
      title: 'Sessions',
      parts: [h('h2', { class: 'unseen' }, 'Sessions'), h('p', { class: 'soft' }, 'A session is one client with its lease: all that it holds ends with it.'), form, list.box, steps.box],
      ask: () => ({ view: 'sessions', match: field.value, after: pages.at(-1) }),
      show(value) {
        next = value.next;
        list.fill(value.sessions, it => it.session, it => [
          sessionLink(it.session), clients(it), span(it.lease / 1000), lease(it), count(it.claims), ending(it) || 'open',
        ], field.value ? 'No session is like that.' : 'There is no session.');
        const words = `${count(value.sessions.length)} of ${count(value.total)} sessions, page ${pages.length}`;
        steps.show(pages.length > 1, next !== null, words);
        if (announce) Page.say(words);
        announce = false;
      },
    };
  },

  session(id) {
    const facts = h('dl', { class: 'facts' });
    const button = h('button', { type: 'button', class: 'danger', disabled: true }, 'End session…');
    const list = table('Its records', ['Record', 'It', 'Mode', 'Token', 'For', 'Asked to give it up']);
    let claimed = 0;
    button.onclick = () => confirmed(`End session ${id}?`,
      `Its lease is renewed no more, and its client is told so at once. What it has (${count(claimed)} records) goes to others when the client says that it is done, or when the lease is over. This can't be undone.`,
      'End session', async () => {
        const { left: millis } = await post('/api/end-session', { session: id });
        Page.say(`The session ends within ${span(millis / 1000)}`);
      });
    return {
      title: `Session ${id}`,
      parts: [h('p', {}, h('a', { href: '#sessions' }, 'All sessions')),
        h('div', { class: 'head' }, h('h2', {}, 'Session ', h('span', { class: 'mono' }, id)), button), facts, list.box],
      ask: () => ({ view: 'session', id }),
      show(value) {
        button.disabled = Boolean(value.over || value.last);
        claimed = value.claims ?? 0;
        const pairs = value.over ? [['State', 'over: closed, or its lease has ended']] : [
          ['State', value.last ? ending(value) : value.recovers ? 're-asserts what it held' : 'open'],
          ['Lease', span(value.lease / 1000)], ['Left of it', lease(value)],
          ['Records', count(value.claims)], ['Clients', clients({ ...value, user: null })],
          ...(value.user ? [['User', value.user]] : []),
        ];
        facts.replaceChildren(...pairs.flatMap(([name, what]) => [h('dt', {}, name), h('dd', {}, what)]));
        list.fill(value.records, it => it.key + it.holds, it => [
          recordLink(it.record, it.key), it.holds ? 'holds it' : 'waits for it', mode(it.mode),
          h('span', { class: 'mono' }, it.token ?? '–'), since(it.since), it.revoked ? h('span', { class: 'tag wanted' }, `for a ${it.revoked}`) : 'no',
        ], 'It holds nothing.');
        const more = claimed - value.records.length;
        list.caption.textContent = more > 0 ? `Its records (${count(more)} more are not shown)` : 'Its records';
      },
    };
  },

  graph() {
    const chart = h('div', { class: 'chart', tabindex: '0', role: 'group', 'aria-label': 'Drawing of who waits for whom' });
    const list = table('The same as a table', ['Who waits', 'For', 'Held by', 'Owners that are known']);
    const circles = h('ul', { class: 'circles' });
    return {
      title: 'Who waits for whom',
      parts: [h('h2', { class: 'unseen' }, 'Who waits for whom'), h('p', { class: 'soft' }, 'An arrow leads from a session that waits to one that holds what it waits for.'),
        chart, h('h3', {}), list.box, h('h3', {}, 'Deadlocks that were refused'), circles],
      ask: () => ({ view: 'graph' }),
      show(value) {
        const edges = value.records.flatMap(record => record.waiters.slice(0, 6).flatMap(waiter =>
          record.holders.slice(0, 4).map(holder => ({ from: waiter.session, to: holder.session, name: record.record, key: record.key }))));
        const some = edges.slice(0, 80);
        chart.replaceChildren(some.length ? Draw.graph(some, id => id, id => `#session/${id}`) : h('p', { class: 'none' }, 'Nobody waits for anybody.'));
        const owners = edge => value.owners.filter(it => it.record === edge.name && (it.session === (it.waits ? edge.from : edge.to)))
          .map(it => `${it.waits ? 'waits' : 'holds'}: ${it.owners.join(', ')}`).join('; ');
        list.fill(edges, it => `${it.from} ${it.to} ${it.key}`, it => [sessionLink(it.from), recordLink(it.name, it.key), sessionLink(it.to), owners(it) || '–'], 'Nobody waits for anybody.');
        list.caption.textContent = edges.length > some.length ? `The same as a table; the first ${some.length} are drawn` : 'The same as a table';
        circles.replaceChildren(...value.circles.map(it => h('li', {}, Draw.circle(it.owners), h('p', {},
          'Owners ', h('b', {}, [...it.owners, it.owners[0]].join(' → ')), h('br'), 'refused to ', sessionLink(it.session), ' at ',
          recordLink(it.record, it.key), ', ', since(it.at), ' ago'))));
        if (!value.circles.length) circles.append(h('li', { class: 'none' }, 'None that the server remembers.'));
      },
    };
  },
};

const lease = it => h('span', {}, h('progress', { max: it.lease, value: 0, 'aria-hidden': 'true' }), ' ', left(it.until));
const ending = it => it.last ? h('span', { class: 'tag ends' }, 'ends: it is not renewed') : it.recovers ? h('span', { class: 'tag' }, 're-asserts') : '';

const clients = it => [it.user && `user ${it.user}`, ...it.clients].filter(Boolean).join(', ') || h('span', { class: 'soft' }, 'not connected');

function details(data) {
  const parts = [];
  if (data.mode) parts.push(data.mode);
  if (data.token) parts.push(`token ${data.token}`);
  if (data.waited !== undefined) parts.push(`waited ${span(data.waited)}`);
  if (data.held !== undefined) parts.push(`held ${span(data.held)}`);
  return parts.join(', ');
}

function decodeSafely(key) {
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}
