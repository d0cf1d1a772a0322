// The page's life: which view is shown, the stream that keeps it up to date, the numbers on top.
'use strict';

// How old the data may be, in seconds, before it is shown as stale: the server sends some each second.
const FRESH = 5;

const Page = {
  who: { user: null },
  samples: [],
  last: 0,
  stream: null,
  // What the server's clock is ahead of this page's, in milliseconds.
  ahead: null,
  // When the server was heard last, on this page's clock.
  heard: null,
  // The view that is shown, and its name with what it looks at.
  view: null,
  shown: null,

  now() { return performance.now() + (this.ahead ?? 0); },

  say(text) { $('#said').textContent = text; },

  // Where the part after # leads: a view, what it looks at, and how: #records?sort=name&page=2.
  route() {
    const [path, query] = location.hash.slice(1).split('?', 2);
    const [view, ...rest] = path.split('/');
    const known = ['records', 'record', 'sessions', 'session', 'graph'];
    return { view: known.includes(view) ? view : 'records', what: rest.join('/'), params: new URLSearchParams(query) };
  },

  // The address of a list; what has its default value is left out.
  address(view, params) {
    const defaults = { sort: 'waiters', page: 1 };
    const said = Object.entries(params).filter(([key, value]) => value && value !== defaults[key]);
    const query = new URLSearchParams(said).toString();
    return `#${view}${query ? `?${query}` : ''}`;
  },

  // Shows a list in another way, as an entry of its own in the browser's history.
  go(view, params) {
    const address = this.address(view, params);
    if (address === this.address(view, Object.fromEntries(this.route().params))) return;
    history.pushState(null, '', address);
    this.open();
  },

  // The same while somebody types: all that is typed in one go is one entry of the history.
  type(view, params) {
    const address = this.address(view, params);
    if (history.state?.typed) history.replaceState({ typed: true }, '', address);
    else history.pushState({ typed: true }, '', address);
    this.open(true);
  },

  open(typed = false) {
    const { view, what, params } = this.route();
    const group = { record: 'records', session: 'sessions' }[view] ?? view;
    for (const link of document.querySelectorAll('nav a')) {
      if (link.hash === `#${group}`) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    const is = `${view}/${what}`;
    // A list that is shown in another way keeps its elements, and so the focus.
    const fresh = this.shown !== is || !this.view.apply;
    if (fresh) {
      this.view = Views[view](what);
      this.shown = is;
    }
    this.view.apply?.(params, typed);
    if (fresh) $('#content').replaceChildren(...this.view.parts);
    document.title = `${this.view.title} – Lockspan`;
    this.listen();
    return fresh;
  },

  // Looks at what the present view asks for, from now on.
  listen() {
    this.stream?.close();
    this.value = null;
    if (this.who.look_needs_login && !this.who.user) {
      this.stream = null;
      this.heard = null;
      this.shown = null;
      this.link('lost', 'not logged in');
      this.notice();
      $('#content').replaceChildren(h('p', { class: 'none' }, 'This server requires a login: log in first.'));
      return;
    }
    const query = new URLSearchParams({ ...this.view.ask(), since: this.last });
    // A browser lets no page add a header to this. A stream with a login is not kept out by those without one.
    if (this.who.user) query.set('token', token());
    // A record's key is encoded already: it may have bytes that are no text.
    const asked = `${query}${this.view.key ? `&name=${this.view.key}` : ''}`;
    const stream = this.stream = new EventSource(`/api/live?${asked}`);
    stream.addEventListener('open', () => this.link('live', 'live'));
    stream.addEventListener('samples', event => stream === this.stream && this.sampled(JSON.parse(event.data)));
    stream.addEventListener('view', event => {
      if (stream !== this.stream) return;
      this.heard = performance.now();
      this.value = JSON.parse(event.data);
      this.view.show(this.value);
      tick();
    });
    stream.addEventListener('error', () => {
      if (stream !== this.stream) return;
      this.link('lost', 'connection lost');
      this.notice();
      // Asked to stop, or refused: it does not come back by itself.
      if (stream.readyState === EventSource.CLOSED) {
        setTimeout(() => stream === this.stream && this.again(asked), 3000);
      }
    });
  },

  // The stream was refused: perhaps the login has expired, or what the address asks for is wrong.
  async again(asked) {
    try {
      const was = this.who.user;
      await ask();
      if (was && !this.who.user) this.say('The login has expired');
      const answer = await fetch(`/api/view?${asked}`, { headers: { 'X-Lockspan-Csrf': token() } });
      if (answer.status === 400) {
        this.link('lost', 'not shown');
        this.heard = null;
        this.notice();
        this.shown = null;
        $('#content').replaceChildren(h('p', { class: 'none', role: 'alert' }, `The address of this page is wrong: ${(await answer.json()).error}`));
        return;
      }
    } catch {
      // Nobody answers; the stream will say so.
    }
    this.listen();
  },

  // Whether what is shown is no longer what the server would show.
  isStale() {
    return this.heard !== null && ($('#link').dataset.is === 'lost' || performance.now() - this.heard > FRESH * 1000);
  },

  // The line above all: how old the data is, or whom a restarted server waits for.
  notice() {
    // A server that is connected and says nothing is as good as none.
    if (this.isStale()) this.link('lost', this.stream?.readyState === EventSource.OPEN ? 'no answer' : 'connection lost');
    const box = $('#notice'), stale = this.isStale(), recovery = this.samples.at(-1)?.recovery;
    document.body.classList.toggle('stale', stale);
    box.className = stale ? 'lost' : '';
    box.hidden = !stale && !recovery;
    if (stale) {
      const seconds = Math.round((performance.now() - this.heard) / 1000);
      box.textContent = `No connection to the server: data from ${span(seconds)} ago. Reconnecting.`;
    } else if (recovery) {
      box.replaceChildren(...recovering(recovery));
    }
  },

  link(is, text) {
    if ($('#link').dataset.is === is && $('#link-text').textContent === text) return;
    $('#link').dataset.is = is;
    $('#link-text').textContent = text;
  },

  sampled(samples) {
    const was = Boolean(this.samples.at(-1)?.recovering);
    this.samples = [...this.samples, ...samples].slice(-SECONDS);
    const last = this.samples.at(-1);
    this.last = last.number;
    this.ahead = last.now - performance.now();
    this.heard = performance.now();
    tiles(last);
    plots(this.samples);
    if (last.recovering) this.link('waiting', 'recovering');
    else if (this.stream?.readyState === EventSource.OPEN) this.link('live', 'live');
    // An empty list says why it is empty, and the server sends the same list only once.
    if (was !== Boolean(last.recovering) && this.value) this.view.show(this.value);
    this.notice();
  },
};

// The sessions that a restarted server waits for, and how long at most.
function recovering(it) {
  const named = it.some.slice(0, 3).map(one => [who(one), one.names.length ? ` (${one.names.join(', ')})` : '']);
  const more = it.sessions - named.length;
  if (more > 0) named.push([counted(more, 'more session')]);
  if (it.unknown) named.push(['sessions of an earlier run, which are not known by name']);
  const until = new Date(Date.now() + it.left).toLocaleTimeString('en-GB');
  const comma = at => at === 0 ? '' : at < named.length - 1 ? ', ' : ' and ';
  return ['Recovering after a restart: waiting for ', ...named.flatMap((one, at) => [comma(at), ...one]),
    ` to re-assert their locks, at most ${Math.ceil(it.left / 1000)} s more (until ${until}). Until then no record is granted that they may hold.`];
}

const SECONDS = 300;

function tiles(last) {
  const all = [
    ['Sessions', last.sessions], ['Records', last.records], ['Held', last.held],
    ['Waiting', last.waiting], ['Connections', last.connections],
    ['Deadlocks refused', last.deadlocks, last.deadlocks > 0],
    ['Grants lost', last.lost, last.lost > 0],
  ];
  const list = $('#tiles');
  if (!list.children.length) {
    list.append(...all.map(([name]) => h('div', {}, h('dt', {}, name), h('dd', {}))));
  }
  all.forEach(([, value, alarming], at) => {
    list.children[at].classList.toggle('alarming', Boolean(alarming));
    list.children[at].lastChild.textContent = count(value);
  });
}

function plots(samples) {
  const box = $('#plots');
  if (!box.children.length) box.append(h('figure'), h('figure'), h('figure'));
  const shown = Math.min(Math.max(samples.length, 60), SECONDS);
  const line = (name, key) => ({ name, values: samples.map(sample => sample[key]) });
  Draw.plot(box.children[0], 'Per second',
    [line('grants', 'grants'), line('hand-overs', 'handovers'), line('revokes', 'revokes')], count, shown);
  Draw.plot(box.children[1], 'Wait time',
    [line('p50', 'wait_half'), line('p99', 'wait_most')], span, shown);
  Draw.plot(box.children[2], 'Holders and waiters', [line('holders', 'held'), line('waiters', 'waiting')], count, shown);
}

// Ages and what is left of leases go on between two messages.
function tick() {
  Page.notice();
  // Ages that go on would say that what is shown is still so.
  if (Page.isStale()) return;
  const now = Page.now();
  for (const node of document.querySelectorAll('[data-since]')) {
    node.textContent = span(Math.max(0, now - node.dataset.since) / 1000);
  }
  for (const node of document.querySelectorAll('[data-until]')) {
    const left = Math.max(0, node.dataset.until - now) / 1000;
    node.textContent = span(left);
    if (node.previousElementSibling?.tagName === 'PROGRESS') node.previousElementSibling.value = left * 1000;
  }
}

// What shows that a request comes from this page. It is kept where pages of other ports can't read it,
// which cookies are not.
const token = () => localStorage.getItem('token') ?? '';

async function post(path, body) {
  const headers = { 'Content-Type': 'application/json', 'X-Lockspan-Csrf': token() };
  const answer = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) });
  const value = await answer.json();
  if (answer.ok) return value;
  if (answer.status === 401) await ask();
  throw new Error(value.error);
}

async function ask() {
  Page.who = await (await fetch('/api/who', { headers: { 'X-Lockspan-Csrf': token() } })).json();
  $('#server').textContent = Page.who.address.join(', ');
  $('#login-open').textContent = Page.who.user ? `Log out ${Page.who.user}` : 'Log in';
  $('#login-how').textContent = !Page.who.can_log_in ? Page.who.how
    : `${Page.who.look_needs_login ? 'Needed to see this page and, with the admin right, to end sessions and take back records' : 'Needed to end sessions and take back records'}: ${Page.who.how}.`;
  // Without users there is one who can log in.
  if (!Page.who.look_needs_login && !$('#user').value) $('#user').value = 'operator';
  for (const field of document.querySelectorAll('#login input, #login [type="submit"]')) {
    field.disabled = !Page.who.can_log_in;
  }
}

// Shows a dialog; `act` is done when it is sent, and what it throws is shown.
function dialog(box, act) {
  const form = box.querySelector('form'), problem = box.querySelector('.problem');
  problem.textContent = '';
  form.onsubmit = async event => {
    event.preventDefault();
    const send = box.querySelector('[type="submit"]');
    send.disabled = true;
    try {
      await act();
      box.close();
    } catch (why) {
      problem.textContent = why.message;
    } finally {
      send.disabled = false;
    }
  };
  box.querySelector('[data-close]').onclick = () => box.close();
  box.showModal();
}

function login(then) {
  dialog($('#login'), async () => {
    const who = await post('/api/login', { user: $('#user').value, password: $('#password').value });
    localStorage.setItem('token', who.csrf);
    $('#password').value = '';
    await ask();
    if (!Page.stream) Page.open();
    then?.();
  });
}

// Asks whether to do it, after a login if there was none.
function confirmed(title, text, verb, act) {
  if (!Page.who.user) {
    login(() => setTimeout(() => confirmed(title, text, verb, act)));
    return;
  }
  $('#confirm-title').textContent = title;
  $('#confirm-text').textContent = text;
  $('#confirm [type="submit"]').textContent = verb;
  dialog($('#confirm'), act);
}

function theme(step) {
  const all = ['auto', 'light', 'dark'];
  let is = localStorage.getItem('theme');
  if (!all.includes(is)) is = 'auto';
  if (step) is = all[(all.indexOf(is) + 1) % all.length];
  localStorage.setItem('theme', is);
  if (is === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = is;
  $('#theme').textContent = `Colours: ${is}`;
}

addEventListener('DOMContentLoaded', async () => {
  theme(false);
  $('#theme').onclick = () => theme(true);
  $('#login-open').onclick = async () => {
    if (!Page.who.user) return login();
    await post('/api/logout', {});
    localStorage.removeItem('token');
    await ask();
    if (Page.who.look_needs_login) {
      Page.listen();
      $('#tiles').replaceChildren();
      $('#plots').replaceChildren();
      Page.samples = [];
      Page.last = 0;
    }
    Page.say('Logged out');
  };
  addEventListener('hashchange', () => {
    if (!Page.open()) return;
    $('#content').focus({ preventScroll: true });
    Page.say(document.title);
  });
  setInterval(tick, 1000);
  await ask();
  Page.open();
  if (!Page.stream) login();
});
