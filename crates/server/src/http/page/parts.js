// What all views are made of: elements, numbers, tables, links.
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
  if (seconds === 0) return '0 s';
  if (seconds < 0.001) return `${count(seconds * 1e6)} µs`;
  if (seconds < 1) return `${count(seconds * 1e3)} ms`;
  if (seconds < 120) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

// A table whose rows stay the same elements as long as their key is there, so that the focus stays.
// A column is a name, or a name with the order that its head switches to.
function table(caption, columns) {
  const body = h('tbody', { role: 'rowgroup' });
  const text = h('caption', {}, caption);
  const names = columns.map(column => column.name ?? column);
  const heads = columns.map((column, at) => h('th', { scope: 'col', role: 'columnheader' },
    column.sort ? h('a', { href: '#records', 'data-sort': column.sort }, names[at]) : names[at]));
  // The roles are what the elements are; they get lost when a narrow screen shows rows as blocks.
  const whole = h('table', { role: 'table' }, text,
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, heads)), body);
  const known = new Map();
  function fill(items, key, cells, empty) {
    const rows = items.map(item => {
      const id = key(item), sign = JSON.stringify(item);
      const old = known.get(id);
      if (old?.sign === sign) return old.row;
      const fresh = cells(item).map((cell, at) => at === 0
        ? h('th', { scope: 'row', role: 'rowheader' }, cell)
        : h('td', { role: 'cell', 'data-label': names[at], class: cell?.dataset?.since ? 'num' : null }, cell ?? ''));
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
  return { box: h('div', { class: 'wide' }, whole), fill, caption: text, heads };
}

const since = at => h('time', { 'data-since': at });
const left = at => h('time', { 'data-until': at });
const mode = name => h('span', { class: `tag ${name}` }, name);
const mono = text => h('span', { class: 'mono' }, text);
// Names, labels and notes that are written from right to left turn nothing around them.
const recordLink = (name, key, most = 512) => h('a', { href: `#record/${key}`, title: name }, h('bdi', {}, Draw.short(name, most)));
const noted = it => it.note ? [' ', h('span', { class: 'note' }, '(', h('bdi', {}, it.note), ')')] : [];

// A session by its label; one without a label by its id, which is in the title otherwise.
function who(it) {
  const name = it.label ?? it.session;
  const title = it.label ? `${it.label}, session ${it.session}` : `session ${it.session}`;
  return h('a', { href: `#session/${it.session}`, class: 'who', title }, h('bdi', {}, Draw.short(name, 56)));
}

function state(text) {
  return h('span', { class: text.includes('wanted') || text === 'recovering' ? 'tag wanted' : 'tag' }, text);
}

// Some claims of a row, in order, and how many more there are.
function claims(list, more, numbered) {
  if (!list.length) return h('span', { class: 'soft' }, 'none');
  const shown = list.slice(0, 3);
  const rest = list.length - shown.length + more;
  return h(numbered ? 'ol' : 'ul', {},
    shown.map((claim, at) => h('li', {}, numbered ? `${at + 1}. ` : null, mode(claim.mode), ' ', who(claim), noted(claim), ' ',
      numbered || at > 0 || rest > 0 || shown.length > 1 ? since(claim.since) : null)),
    rest > 0 ? h('li', { class: 'more' }, `and ${count(rest)} more`) : null);
}

// Two buttons and a text; each button calls its function.
function pager(names, steps) {
  const buttons = names.map((name, at) => h('button', { type: 'button', onclick: steps[at] }, name));
  const text = h('p', {});
  return {
    box: h('div', { class: 'pager' }, buttons, text),
    show(enabled, words) {
      buttons.forEach((button, at) => { button.disabled = !enabled[at]; });
      text.textContent = words;
    },
  };
}

// A field to search with; `again` is called with its value when somebody has stopped typing.
function search(label, example, again, ...more) {
  const field = h('input', { id: 'match', type: 'search', autocomplete: 'off', spellcheck: 'false', placeholder: example, maxlength: '512' });
  let pause;
  field.oninput = () => {
    clearTimeout(pause);
    pause = setTimeout(() => again(field.value), 250);
  };
  const form = h('form', { class: 'search', role: 'search', onsubmit: event => { event.preventDefault(); clearTimeout(pause); again(field.value); } },
    h('div', {}, h('label', { for: 'match' }, label), field), ...more);
  return { form, field };
}

const lease = it => h('span', {}, h('progress', { max: it.lease, value: 0, 'aria-hidden': 'true' }), ' ', left(it.until));
const ending = it => it.last ? h('span', { class: 'tag ends' }, 'ending (no longer renewed)') : it.recovers ? h('span', { class: 'tag wanted' }, 're-asserting') : '';
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
