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
    const { form, field } = search('Search by name (* and ? are wildcards)', 'invoice:4, or order:*7', again,
      h('div', { class: 'tick' }, only, h('label', { for: 'only' }, 'only records with waiters')));
    const list = table('Records that are held or waited for', ['Record', 'State', 'Token', 'Holders', 'Waiters, in order']);
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
        ], field.value || only.checked ? 'No matching record is held or waited for.' : 'No record is held or waited for.');
        const words = value.cut
          ? `the ${counted(value.records.length, 'record')} with the most waiters; more are not shown`
          : `${count(value.records.length)} of ${counted(value.total, 'record')}, page ${pages.length}`;
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
    const held = table('Holders', ['Session', 'Client', 'Mode', 'Token', 'Held for', 'Asked to release', 'Expires in']);
    const line = table('Waiters, in order', ['Session', 'Position', 'Mode', 'Waited']);
    const past = table('Recent events', ['When', 'Event', 'Session', 'Details']);
    let name = decodeSafely(key);
    button.onclick = () => confirmed(`Take back ${name}?`,
      'Its holder is asked to release it, as if another session waited for it, and releases it when it is no longer in use. '
      + 'A holder that does not answer keeps it until its lease expires. To be sure that it is released, end the session of its holder.',
      'Take back', async () => {
        await post('/api/take-back', { key });
        Page.say(`The holder of ${name} is asked to release it`);
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
        ], 'No holders.');
        const places = value.waiters.map((waiter, at) => ({ ...waiter, place: at + 1 }));
        line.fill(places, it => it.session, it => [sessionLink(it.session), h('span', {}, String(it.place)), mode(it.mode), since(it.since)],
          'No waiters.');
        const more = value.more_holders + value.more_waiters;
        line.caption.textContent = more ? `Waiters, in order (${count(more)} more holders and waiters are not shown)` : 'Waiters, in order';
        past.fill(value.history, it => `${it.at}-${it.session}-${it.what}`, it => [
          h('span', {}, since(it.at / 1000), ' ago'), it.what, sessionLink(it.session), details(it.data),
        ], 'No recorded events.');
      },
    };
  },

  sessions() {
    const pages = [''];
    let next = null, announce = false;
    const { form, field } = search('Search by session, client or user (* and ? are wildcards)', 'worker-3, or 10.0.*', () => {
      pages.length = 1;
      announce = true;
      Page.listen();
    });
    const list = table('Open sessions', ['Session', 'Client', 'Lease', 'Expires in', 'Records', 'State']);
    const steps = pager(step => {
      if (step > 0 && next !== null) pages.push(next);
      if (step < 0 && pages.length > 1) pages.pop();
      announce = true;
      Page.listen();
    });
    return {
      title: 'Sessions',
      parts: [h('h2', { class: 'unseen' }, 'Sessions'), h('p', { class: 'soft' }, 'A session is one client with its lease. When the session ends, all its locks are released.'), form, list.box, steps.box],
      ask: () => ({ view: 'sessions', match: field.value, after: pages.at(-1) }),
      show(value) {
        next = value.next;
        list.fill(value.sessions, it => it.session, it => [
          sessionLink(it.session), clients(it), span(it.lease / 1000), lease(it), count(it.claims), ending(it) || 'open',
        ], field.value ? 'No matching session.' : 'No sessions.');
        const words = `${count(value.sessions.length)} of ${counted(value.total, 'session')}, page ${pages.length}`;
        steps.show(pages.length > 1, next !== null, words);
        if (announce) Page.say(words);
        announce = false;
      },
    };
  },

  session(id) {
    const facts = h('dl', { class: 'facts' });
    const button = h('button', { type: 'button', class: 'danger', disabled: true }, 'End session…');
    const list = table('Records', ['Record', 'Role', 'Mode', 'Token', 'For', 'Asked to release']);
    let claimed = 0;
    button.onclick = () => confirmed(`End session ${id}?`,
      `Its lease is no longer renewed, and its client is told at once. What it holds (${counted(claimed, 'record')}) is free for others when the client has finished, or when the lease expires. This can't be undone.`,
      'End session', async () => {
        const { left: millis } = await post('/api/end-session', { session: id });
        Page.say(`The session expires in ${span(millis / 1000)}`);
      });
    return {
      title: `Session ${id}`,
      parts: [h('p', {}, h('a', { href: '#sessions' }, 'All sessions')),
        h('div', { class: 'head' }, h('h2', {}, 'Session ', h('span', { class: 'mono' }, id)), button), facts, list.box],
      ask: () => ({ view: 'session', id }),
      show(value) {
        button.disabled = Boolean(value.over || value.last);
        claimed = value.claims ?? 0;
        const pairs = value.over ? [['State', 'ended: closed, or its lease expired']] : [
          ['State', value.last ? ending(value) : value.recovers ? 're-asserting its locks' : 'open'],
          ['Lease', span(value.lease / 1000)], ['Expires in', lease(value)],
          ['Records', count(value.claims)], ['Clients', clients({ ...value, user: null })],
          ...(value.user ? [['User', value.user]] : []),
        ];
        facts.replaceChildren(...pairs.flatMap(([name, what]) => [h('dt', {}, name), h('dd', {}, what)]));
        list.fill(value.records, it => it.key + it.holds, it => [
          recordLink(it.record, it.key), it.holds ? 'holder' : 'waiter', mode(it.mode),
          h('span', { class: 'mono' }, it.token ?? '–'), since(it.since), it.revoked ? h('span', { class: 'tag wanted' }, `for a ${it.revoked}`) : 'no',
        ], 'No records.');
        const more = claimed - value.records.length;
        list.caption.textContent = more > 0 ? `Records (${count(more)} more are not shown)` : 'Records';
      },
    };
  },

  graph() {
    const chart = h('div', { class: 'chart', tabindex: '0', role: 'group', 'aria-label': 'Graph of who waits for whom' });
    const list = table('The same as a table', ['Waiter', 'Record', 'Holder', 'Known owners']);
    const circles = h('ul', { class: 'circles' });
    return {
      title: 'Who waits for whom',
      parts: [h('h2', { class: 'unseen' }, 'Who waits for whom'), h('p', { class: 'soft' }, 'An arrow points from a waiter to a holder of the record that it waits for.'),
        chart, h('h3', {}), list.box, h('h3', {}, 'Refused deadlocks'), circles],
      ask: () => ({ view: 'graph' }),
      show(value) {
        const edges = value.records.flatMap(record => record.waiters.slice(0, 6).flatMap(waiter =>
          record.holders.slice(0, 4).map(holder => ({ from: waiter.session, to: holder.session, name: record.record, key: record.key }))));
        const some = edges.slice(0, 80);
        chart.replaceChildren(some.length ? Draw.graph(some, id => id, id => `#session/${id}`) : h('p', { class: 'none' }, 'No session waits.'));
        const owners = edge => value.owners.filter(it => it.record === edge.name && (it.session === (it.waits ? edge.from : edge.to)))
          .map(it => `${it.waits ? 'waiter' : 'holder'}: ${it.owners.join(', ')}`).join('; ');
        list.fill(edges, it => `${it.from} ${it.to} ${it.key}`, it => [sessionLink(it.from), recordLink(it.name, it.key), sessionLink(it.to), owners(it) || '–'], 'No session waits.');
        list.caption.textContent = edges.length > some.length ? `The same as a table; the first ${some.length} are drawn` : 'The same as a table';
        circles.replaceChildren(...value.circles.map(it => h('li', {}, Draw.circle(it.owners), h('p', {},
          'Cycle of owners ', h('b', {}, [...it.owners, it.owners[0]].join(' → ')), h('br'), 'refused to ', sessionLink(it.session), ' at ',
          recordLink(it.record, it.key), ', ', since(it.at), ' ago'))));
        if (!value.circles.length) circles.append(h('li', { class: 'none' }, 'None recorded.'));
      },
    };
  },
};

const lease = it => h('span', {}, h('progress', { max: it.lease, value: 0, 'aria-hidden': 'true' }), ' ', left(it.until));
const ending = it => it.last ? h('span', { class: 'tag ends' }, 'ending (no longer renewed)') : it.recovers ? h('span', { class: 'tag' }, 're-asserting') : '';

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
