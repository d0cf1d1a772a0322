// The views: each has its parts, says what to ask the server for, and shows what it answers. A list
// has its search, order and page in the address of this page; `apply` takes them from there.
'use strict';

const SORTS = { waiters: 'most waiters', age: 'held longest', name: 'name' };
const PAGES = 200;

const plain = text => text ? h('bdi', {}, text) : '–';

const Views = {
  records() {
    let now, pages = 1, announce = false;
    // The list with these changes, which start it at page 1 unless they say otherwise.
    const go = changes => {
      announce = true;
      Page.go('records', { ...now, page: 1, ...changes });
    };
    const only = h('input', { id: 'only', type: 'checkbox', onchange: () => go({ only: only.checked ? 'waiting' : '' }) });
    const sort = h('select', { id: 'sort', onchange: () => go({ sort: sort.value }) },
      Object.entries(SORTS).map(([value, name]) => h('option', { value }, name)));
    const { form, field } = search('Search by name (* and ? are wildcards)', 'invoice:4, or order:*7',
      match => { announce = true; Page.type('records', { ...now, page: 1, match }); },
      h('div', { class: 'pick' }, h('label', { for: 'sort' }, 'Sort by'), sort),
      h('div', { class: 'tick' }, only, h('label', { for: 'only' }, 'only records with waiters')));
    const list = table('Records that are held or waited for', [{ name: 'Record', sort: 'name' }, 'State', 'Held by',
      { name: 'Held for', sort: 'age' }, { name: 'Waiters, in order', sort: 'waiters' }]);
    const steps = pager(['Back', 'Next'], [
      () => go({ page: Math.max(1, Math.min(now.page - 1, pages)) }), () => go({ page: now.page + 1 })]);
    const none = () => Page.samples.at(-1)?.recovering ? 'No session has re-asserted a matching record yet.'
      : now.page > 1 ? 'No record on this page.'
      : now.match || now.only ? 'No matching record is held or waited for.' : 'No record is held or waited for.';
    return {
      title: 'Records',
      parts: [h('h2', { class: 'unseen' }, 'Records'), form, list.box, steps.box],
      apply(params, typed) {
        const sorted = Object.hasOwn(SORTS, params.get('sort')) ? params.get('sort') : 'waiters';
        const page = Math.min(Math.max(1, Math.trunc(params.get('page')) || 1), PAGES);
        now = { match: params.get('match') ?? '', only: params.get('only') === 'waiting' ? 'waiting' : '', sort: sorted, page };
        if (!typed) field.value = now.match;
        only.checked = Boolean(now.only);
        sort.value = now.sort;
        for (const head of list.heads) {
          const link = head.querySelector('a');
          if (!link) continue;
          link.href = Page.address('records', { ...now, page: 1, sort: link.dataset.sort });
          head.toggleAttribute('aria-sort', false);
          if (link.dataset.sort === now.sort) head.setAttribute('aria-sort', now.sort === 'name' ? 'ascending' : 'descending');
        }
      },
      ask: () => ({ view: 'records', ...now }),
      show(value) {
        ({ pages } = value);
        list.fill(value.records, record => record.key, record => [
          recordLink(record.record, record.key), state(record.state), claims(record.holders, record.more_holders, false),
          record.holders.length ? since(record.holders[0].since) : '–', claims(record.waiters, record.more_waiters, true),
        ], none());
        const all = now.match || now.only ? `${count(value.found)} matching of ${counted(value.total, 'record')}` : counted(value.found, 'record');
        const rest = value.part ? '; not all records could be looked at'
          : value.found > pages * 50 ? '; search for a part of the name to see others' : '';
        const words = `${all}, page ${now.page} of ${count(pages)}${rest}`;
        steps.show([now.page > 1, now.page < pages], words);
        if (announce) Page.say(words);
        announce = false;
      },
    };
  },

  record(key) {
    const title = h('h2', {}, decodeSafely(key));
    const tag = h('span', {});
    const button = h('button', { type: 'button', class: 'danger', disabled: true }, 'Take back…');
    const held = table('Holders', ['Holder', 'Mode', 'Note', 'Client', 'Token', 'Held for', 'Asked to release', 'Expires in']);
    const line = table('Waiters, in order', ['Waiter', 'Position', 'Mode', 'Note', 'Waited']);
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
          who(it), mode(it.mode), plain(it.note), it.lease ? clients(it.lease) : '–', mono(it.token ?? 'reserved'), since(it.since),
          it.revoked ? h('span', { class: 'tag wanted' }, `for a ${it.revoked}`) : 'no',
          it.lease ? h('span', {}, left(it.lease.until), ' ', it.lease.last ? h('span', { class: 'tag ends' }, 'not renewed') : '') : '–',
        ], 'No holders.');
        const places = value.waiters.map((waiter, at) => ({ ...waiter, place: at + 1 }));
        line.fill(places, it => it.session, it => [who(it), h('span', {}, String(it.place)), mode(it.mode), plain(it.note), since(it.since)],
          'No waiters.');
        const more = value.more_holders + value.more_waiters;
        line.caption.textContent = more ? `Waiters, in order (${count(more)} more holders and waiters are not shown)` : 'Waiters, in order';
        past.fill(value.history, it => `${it.at}-${it.session}-${it.what}`, it => [
          h('span', {}, since(it.at / 1000), ' ago'), it.what, who(it), details(it.data),
        ], 'No recorded events.');
      },
    };
  },

  sessions() {
    let now, next = null, announce = false;
    const { form, field } = search('Search by label, session, client or user (* and ? are wildcards)', 'worker-3, or 10.0.*', match => {
      announce = true;
      Page.type('sessions', { match });
    });
    const list = table('Open sessions', ['Label', 'Session', 'Client', 'Lease', 'Expires in', 'Records', 'State']);
    const go = changes => {
      announce = true;
      Page.go('sessions', { match: now.match, ...changes });
    };
    const steps = pager(['First page', 'Next page'], [() => go({}), () => go({ after: next, page: now.page + 1 })]);
    return {
      title: 'Sessions',
      parts: [h('h2', { class: 'unseen' }, 'Sessions'), h('p', { class: 'soft' }, 'A session is one client with its lease. When the session ends, all its locks are released.'), form, list.box, steps.box],
      apply(params, typed) {
        const after = /^s[0-9a-f]{12}$/.test(params.get('after') ?? '') ? params.get('after') : '';
        const page = after ? Math.max(2, Math.trunc(params.get('page')) || 2) : 1;
        now = { match: params.get('match') ?? '', after, page };
        if (!typed) field.value = now.match;
      },
      ask: () => ({ view: 'sessions', match: now.match, after: now.after }),
      show(value) {
        ({ next } = value);
        list.fill(value.sessions, it => it.session, it => [
          who(it), mono(it.session), clients(it), span(it.lease / 1000), lease(it), count(it.claims), ending(it) || 'open',
        ], now.match ? 'No matching session.' : 'No sessions.');
        const words = `${count(value.sessions.length)} of ${counted(value.total, 'session')}, page ${now.page}`;
        steps.show([now.page > 1, next !== null], words);
        if (announce) Page.say(words);
        announce = false;
      },
    };
  },

  session(id) {
    const facts = h('dl', { class: 'facts' });
    const button = h('button', { type: 'button', class: 'danger', disabled: true }, 'End session…');
    const list = table('Records', ['Record', 'Role', 'Mode', 'Note', 'Token', 'For', 'Asked to release']);
    const title = h('h2', {}, 'Session ', mono(id));
    let claimed = 0, name = `session ${id}`;
    button.onclick = () => confirmed(`End ${name}?`,
      `Its lease is no longer renewed, and its client is told at once. What it holds (${counted(claimed, 'record')}) is free for others when the client closes the session, or when the lease expires, not before. This can't be undone.`,
      'End session', async () => {
        const { left: millis } = await post('/api/end-session', { session: id });
        Page.say(`The session expires in ${span(millis / 1000)}`);
      });
    return {
      title: `Session ${id}`,
      parts: [h('p', {}, h('a', { href: '#sessions' }, 'All sessions')),
        h('div', { class: 'head' }, title, button), facts, list.box],
      ask: () => ({ view: 'session', id }),
      show(value) {
        button.disabled = Boolean(value.over || value.last);
        claimed = value.claims ?? 0;
        if (value.label) {
          name = `session ${value.label} (${id})`;
          title.replaceChildren(h('bdi', {}, value.label), ' ', h('span', { class: 'mono soft' }, id));
          document.title = `${value.label} – Lockspan`;
        }
        const pairs = value.over ? [['State', 'ended: closed, or its lease expired']] : [
          ['State', value.last ? ending(value) : value.recovers ? 're-asserting its locks' : 'open'],
          ['Lease', span(value.lease / 1000)], ['Expires in', lease(value)],
          ['Records', count(value.claims)], ['Clients', clients({ ...value, user: null })],
          ...(value.user ? [['User', value.user]] : []),
        ];
        facts.replaceChildren(...pairs.flatMap(([name, what]) => [h('dt', {}, name), h('dd', {}, what)]));
        list.fill(value.records, it => it.key + it.holds, it => [
          recordLink(it.record, it.key), it.holds ? 'holder' : 'waiter', mode(it.mode), plain(it.note),
          mono(it.token ?? '–'), since(it.since), it.revoked ? h('span', { class: 'tag wanted' }, `for a ${it.revoked}`) : 'no',
        ], 'No records.');
        const more = claimed - value.records.length;
        list.caption.textContent = more > 0 ? `Records (${count(more)} more are not shown)` : 'Records';
      },
    };
  },

  graph() {
    const chart = h('div', { class: 'chart', tabindex: '0', role: 'group', 'aria-label': 'Graph of what blocks what' });
    const list = table('The same as a table', ['Waiter', 'Record', 'Place', 'Waits for', 'Known owners']);
    const deadlocks = h('ul', { class: 'deadlocks' });
    return {
      title: 'Who waits for whom',
      parts: [h('h2', { class: 'unseen' }, 'Who waits for whom'), h('p', { class: 'soft' },
        'Waiters are granted the record in their order, readers of one frame together. An orange arrow points to what a waiter waits for: '
        + 'the record, or the waiters before it. A blue arrow points from a record to its holder.'),
      chart, h('h3', {}), list.box, h('h3', {}, 'Refused deadlocks'), deadlocks],
      ask: () => ({ view: 'graph' }),
      show(value) {
        chart.replaceChildren(value.records.length ? Graph.draw(value.records) : h('p', { class: 'none' }, 'No session waits.'));
        const waits = value.records.flatMap(record => Graph.blocked(record).map(it => ({ ...it, record: record.record, key: record.key })));
        const owners = it => value.owners.filter(one => one.record === it.record
          && (one.waits ? one.session === it.waiter.session : it.by.some(other => other.session === one.session)))
          .map(one => `${one.waits ? 'waiter' : 'holder'}: ${one.owners.join(', ')}`).join('; ');
        list.fill(waits, it => `${it.waiter.session} ${it.key}`, it => [
          h('span', {}, mode(it.waiter.mode), ' ', who(it.waiter), noted(it.waiter)), recordLink(it.record, it.key, 40), h('span', {}, String(it.place)),
          it.by.length ? h('ul', {}, it.by.map(other => h('li', {}, other.holds ? 'holder ' : 'waiter ', mode(other.mode), ' ', who(other)))) : '–',
          owners(it) || '–',
        ], 'No session waits.');
        const more = value.found - value.records.length;
        list.caption.textContent = more > 0 ? `The same as a table; ${counted(more, 'more record')} with waiters not shown` : 'The same as a table';
        deadlocks.replaceChildren(...value.deadlocks.map(it => h('li', {}, Draw.cycle(it.owners), h('p', {},
          'Cycle of owners ', h('b', {}, [...it.owners, it.owners[0]].join(' → ')), h('br'), 'refused to ', who(it), ' at ',
          recordLink(it.record, it.key, 40), ', ', since(it.at), ' ago'))));
        if (!value.deadlocks.length) deadlocks.append(h('li', { class: 'none' }, 'None recorded.'));
      },
    };
  },
};
