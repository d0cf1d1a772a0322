// The page's life: which view is shown, the stream that keeps it up to date, the numbers on top.
'use strict';

const $ = selector => document.querySelector(selector);

// An element with attributes and children; text is never read as HTML.
function h(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.flat().filter(child => child !== null && child !== undefined));
  return node;
}

const number = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const count = value => number.format(value);
// A count with its noun: 1 record, 2 records.
const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? '' : 's'}`;

// A span of seconds as people say it.
function span(seconds) {
  if (seconds < 0.001) return `${count(seconds * 1e6)} µs`;
  if (seconds < 1) return `${count(seconds * 1e3)} ms`;
  if (seconds < 120) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

const Page = {
  who: { user: null },
  samples: [],
  last: 0,
  stream: null,
  // What the server's clock is ahead of this page's, in milliseconds.
  ahead: null,
  view: null,

  now() { return performance.now() + (this.ahead ?? 0); },

  say(text) { $('#said').textContent = text; },

  // Where the part after # leads: a view, and what it looks at.
  route() {
    const [view, ...rest] = location.hash.slice(1).split('/');
    const known = ['records', 'record', 'sessions', 'session', 'graph'];
    return { view: known.includes(view) ? view : 'records', what: rest.join('/') };
  },

  open() {
    const { view, what } = this.route();
    const group = { record: 'records', session: 'sessions' }[view] ?? view;
    for (const link of document.querySelectorAll('nav a')) {
      if (link.hash === `#${group}`) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    this.view = Views[view](what);
    $('#content').replaceChildren(...this.view.parts);
    document.title = `${this.view.title} – Lockspan`;
    this.listen();
  },

  // Looks at what the present view asks for, from now on.
  listen() {
    this.stream?.close();
    if (this.who.look_needs_login && !this.who.user) {
      this.stream = null;
      this.link('lost', 'not logged in');
      $('#content').replaceChildren(h('p', { class: 'none' }, 'This server requires a login: log in first.'));
      return;
    }
    const query = new URLSearchParams({ ...this.view.ask(), since: this.last });
    // A browser lets no page add a header to this. A stream with a login is not kept out by those without one.
    if (this.who.user) query.set('token', token());
    // A record's key is encoded already: it may have bytes that are no text.
    const key = this.view.key ? `&name=${this.view.key}` : '';
    const stream = this.stream = new EventSource(`/api/live?${query}${key}`);
    stream.addEventListener('open', () => this.link('live', 'live'));
    stream.addEventListener('samples', event => this.sampled(JSON.parse(event.data)));
    stream.addEventListener('view', event => {
      if (stream === this.stream) this.view.show(JSON.parse(event.data));
      tick();
    });
    stream.addEventListener('error', () => {
      if (stream !== this.stream) return;
      this.link('lost', 'connection lost');
      // Asked to stop, or refused: it does not come back by itself.
      if (stream.readyState === EventSource.CLOSED) {
        setTimeout(() => stream === this.stream && this.again(), 3000);
      }
    });
  },

  // The stream was refused: perhaps the login has expired.
  async again() {
    try {
      const was = this.who.user;
      await ask();
      if (was && !this.who.user) this.say('The login has expired');
    } catch {
      // Nobody answers; the stream will say so.
    }
    this.listen();
  },

  link(is, text) {
    if ($('#link').dataset.is === is && $('#link-text').textContent === text) return;
    $('#link').dataset.is = is;
    $('#link-text').textContent = text;
  },

  sampled(samples) {
    this.samples = [...this.samples, ...samples].slice(-SECONDS);
    const last = this.samples.at(-1);
    this.last = last.number;
    this.ahead = last.now - performance.now();
    tiles(last);
    plots(this.samples);
    if (last.recovering) this.link('waiting', recovering(last.recovery));
    else if (this.stream?.readyState === EventSource.OPEN) this.link('live', 'live');
  },
};

// The sessions that a restarted server waits for, and how long at most.
function recovering(it) {
  if (!it) return 'recovering: nothing is granted yet';
  const named = it.some.slice(0, 3).map(one => [one.session, ...one.names].join(' '));
  if (it.sessions > named.length) named.push(`${it.sessions - named.length} more`);
  if (it.unknown) named.push('sessions of an earlier run');
  return `recovering: waiting for ${named.join(', ')}, at most ${Math.ceil(it.left / 1000)} s more`;
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
  // On a phone the plots would push all else out of sight.
  $('#plots-box').open = matchMedia('(min-width: 44.01rem)').matches;
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
    Page.open();
    $('#content').focus({ preventScroll: true });
    Page.say(document.title);
  });
  setInterval(tick, 1000);
  await ask();
  Page.open();
  if (!Page.stream) login();
});
