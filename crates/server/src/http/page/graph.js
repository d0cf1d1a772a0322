// What blocks what: for each record its waiters on the left, in turn order, the record in the middle
// and its holders on the right.
'use strict';

const Graph = (() => {
  const { svg } = Draw;
  // Sizes of the boxes, and the space between columns, between boxes, and between turns.
  const BOX = 290, RECORD = 190, HIGH = 44, COLUMNS = 64, ROWS = 8, TURNS = 26, FRAME = 7, EDGE = 18, HEAD = 36;
  const LEFT = EDGE + FRAME, MIDDLE = LEFT + BOX + FRAME + COLUMNS, RIGHT = MIDDLE + RECORD + COLUMNS;
  const WIDTH = RIGHT + BOX + EDGE;

  // The turns of a line: readers that are next to each other are granted together, a writer alone.
  function turns(waiters) {
    const all = [];
    for (const waiter of waiters) {
      const last = all.at(-1);
      if (waiter.mode === 'read' && last?.[0].mode === 'read') last.push(waiter);
      else all.push([waiter]);
    }
    return all;
  }

  // For each waiter of a record, what it waits for: in the first turn the holders in its way, in a
  // later one those of the turn before. A reader behind a writer waits for that writer, although
  // only readers hold the record.
  function blocked(record) {
    const line = turns(record.waiters);
    let place = 0;
    return line.flatMap((turn, at) => turn.map(waiter => ({
      waiter, turn: at + 1, place: ++place,
      by: at > 0 ? line[at - 1] : record.holders.filter(holder =>
        holder.session !== waiter.session && (waiter.mode === 'write' || holder.mode === 'write')),
    })));
  }

  // Text in a box of its own: what is too long for it is cut off, so that no two texts overlap.
  function words(x, y, width, className, ...parts) {
    const text = svg('text', { x: 0, y: 13, class: className });
    text.append(...parts);
    return svg('svg', { x, y, width, height: 18, overflow: 'hidden' }, text);
  }

  const tspan = (attributes, text) => {
    const node = svg('tspan', attributes);
    node.textContent = text;
    return node;
  };

  function box(x, y, width, href, className, title, first, second) {
    const hint = svg('title');
    hint.textContent = title;
    return svg('a', { href, class: `node ${className}` }, hint,
      svg('rect', { x, y, width, height: HIGH, rx: 7 }),
      words(x + 10, y + 4, width - 20, 'name', first), words(x + 10, y + 22, width - 20, 'soft', ...second));
  }

  // A holder or waiter. `place` is the number of its turn in line, `elsewhere` what a holder waits for.
  function session(x, y, claim, place, elsewhere) {
    const name = claim.label ?? claim.session;
    const title = [name, `session ${claim.session}`, claim.note, elsewhere && `waits for ${elsewhere}`].filter(Boolean).join('\n');
    const room = 38 - (place ? 3 : 0);
    const second = [elsewhere ? `waits for ${Draw.short(elsewhere, 18)}; ` : '', `${claim.mode} `,
      tspan({ 'data-since': claim.since }, ''), claim.note ? ` (${claim.note})` : ''];
    const node = box(x, y, BOX, `#session/${claim.session}`, place ? 'waiter' : 'holder', title,
      `${place ? `${place}. ` : ''}${Draw.short(name, room)}`, second);
    node.dataset.session = claim.session;
    return node;
  }

  // An arrow from those of `from` to those of `to`, which are sessions or a record.
  function arrow(className, from, to, d) {
    const path = svg('path', { class: `edge ${className}`, d, 'marker-end': `url(#tip-${className})` });
    path.dataset.from = from.join(' ');
    path.dataset.to = to.join(' ');
    return path;
  }

  const ids = list => list.map(claim => claim.session);
  const curve = (x, y, toX, toY) => `M${x} ${y}C${x + 34} ${y} ${toX - 34} ${toY} ${toX} ${toY}`;

  // One record with its line, from `top` on. Returns where it ends.
  function one(picture, record, top, waitsFor) {
    const line = turns(record.waiters);
    let y = top + FRAME, place = 0, before = null, firstMiddle = null;
    for (const turn of line) {
      const high = turn.length * HIGH + (turn.length - 1) * ROWS;
      if (turn.length > 1) picture.append(svg('rect', { class: 'turn', x: LEFT - FRAME, y: y - FRAME, width: BOX + 2 * FRAME, height: high + 2 * FRAME, rx: 9 }));
      const rim = turn.length > 1 ? FRAME : 0;
      if (before) picture.append(arrow('waits', ids(turn), ids(before.turn), `M${LEFT + 24} ${y - rim}V${before.end + 2}`));
      turn.forEach((claim, at) => picture.append(session(LEFT, y + at * (HIGH + ROWS), claim, ++place, null)));
      firstMiddle ??= { x: LEFT + BOX + rim, y: y + high / 2, turn };
      before = { turn, end: y + high + rim };
      y += high + TURNS;
    }
    let low = line.length ? y - TURNS + FRAME : y;
    if (record.more_waiters) {
      picture.append(words(LEFT, low + 2, BOX, 'soft', `and ${counted(record.more_waiters, 'more waiter')}`));
      low += 22;
    }
    const holders = record.holders.length * (HIGH + ROWS) - ROWS;
    const middle = Math.max(firstMiddle?.y ?? top + FRAME + HIGH / 2, top + FRAME + HIGH / 2);
    const recordY = middle - HIGH / 2;
    const first = Math.max(top + FRAME, middle - holders / 2);
    picture.append(box(MIDDLE, recordY, RECORD, `#record/${record.key}`, 'record', record.record, Draw.short(record.record, 23), [record.state]));
    if (firstMiddle) picture.append(arrow('waits', ids(firstMiddle.turn), [record.key], curve(firstMiddle.x, firstMiddle.y, MIDDLE - 2, middle)));
    record.holders.forEach((claim, at) => {
      const holderY = first + at * (HIGH + ROWS);
      const elsewhere = waitsFor.get(claim.session)?.find(name => name !== record.record) ?? null;
      picture.append(session(RIGHT, holderY, claim, null, elsewhere));
      picture.append(arrow('held', [record.key], [claim.session], curve(MIDDLE + RECORD, middle, RIGHT - 2, holderY + HIGH / 2)));
    });
    let right = first + Math.max(HIGH, holders);
    if (record.more_holders) {
      picture.append(words(RIGHT, right + 4, BOX, 'soft', `and ${counted(record.more_holders, 'more holder')}`));
      right += 24;
    }
    return Math.max(low, recordY + HIGH, right) + FRAME;
  }

  function draw(records) {
    const picture = svg('svg', { width: WIDTH, role: 'group', 'aria-label': `${counted(records.length, 'record')} with waiters; the table below says the same` });
    const tip = name => svg('marker', { id: `tip-${name}`, viewBox: '0 0 10 10', refX: 8, refY: 5, markerWidth: 8, markerHeight: 8, orient: 'auto' },
      svg('path', { class: name, d: 'M0 0L10 5L0 10z' }));
    picture.append(svg('defs', {}, tip('waits'), tip('held')));
    for (const [x, width, text] of [[LEFT, BOX, 'Waiters, in turn order'], [MIDDLE, RECORD, 'Record'], [RIGHT, BOX, 'Holders']]) {
      picture.append(words(x, 10, width, 'soft', text));
    }
    const waitsFor = new Map();
    for (const record of records) {
      for (const { session } of record.waiters) waitsFor.set(session, [...waitsFor.get(session) ?? [], record.record]);
    }
    let y = HEAD;
    records.forEach((record, at) => {
      if (at > 0) picture.append(svg('path', { class: 'rule', d: `M${EDGE} ${y + 6}H${WIDTH - EDGE}` }));
      y = one(picture, record, y + (at > 0 ? 14 : 0), waitsFor);
    });
    picture.setAttribute('height', y + EDGE);
    picture.setAttribute('viewBox', `0 0 ${WIDTH} ${y + EDGE}`);
    return picture;
  }

  return { draw, blocked };
})();
