// Plots and graphs as SVG. Sizes are numbers of this file; colours are the style sheet's.
'use strict';

const Draw = (() => {
  const NS = 'http://www.w3.org/2000/svg';

  function svg(name, attributes = {}, ...children) {
    const node = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  // A round number at or above `most`.
  function ceiling(most) {
    if (!(most > 0)) return 1;
    const power = 10 ** Math.floor(Math.log10(most));
    return [1, 2, 5, 10].map(step => step * power).find(step => step >= most * 0.999);
  }

  // Lines over the last minutes. `lines`: {name, values}; a value may be null.
  function plot(figure, title, lines, show, span) {
    const width = 400, height = 100, left = 0;
    const all = lines.flatMap(line => line.values).filter(value => value !== null);
    const top = ceiling(Math.max(0, ...all));
    const y = value => height - value / top * height;
    let picture = figure.querySelector('svg');
    if (!picture) {
      const caption = document.createElement('figcaption');
      const heading = document.createElement('span');
      heading.textContent = title;
      const legend = document.createElement('ul');
      caption.append(heading, legend);
      picture = svg('svg', { class: 'plot', viewBox: `0 0 ${width} ${height + 14}`,
        preserveAspectRatio: 'none', role: 'img' });
      const texts = document.createElement('div');
      texts.className = 'axis';
      figure.append(caption, picture, texts);
      lines.forEach((line, at) => {
        const item = document.createElement('li');
        item.className = `s${at}`;
        legend.append(item);
      });
    }
    picture.replaceChildren();
    for (const part of [0, 0.5, 1]) {
      const at = y(top * part);
      picture.append(svg('path', { class: 'grid', d: `M${left} ${at}H${width}` }));
    }
    lines.forEach((line, at) => {
      let path = '', pen = 'M';
      line.values.forEach((value, index) => {
        if (value === null) { pen = 'M'; return; }
        const x = width - (line.values.length - 1 - index) / (span - 1) * width;
        path += `${pen}${x.toFixed(1)} ${y(value).toFixed(1)}`;
        // A value alone is a dot.
        if (pen === 'M') path += 'h.01';
        pen = 'L';
      });
      picture.append(svg('path', { class: `s${at}`, d: path || 'M0 0', 'stroke-linecap': 'round' }));
    });
    const last = line => line.values.at(-1) ?? null;
    const words = lines.map(line => `${line.name} ${last(line) === null ? 'none' : show(last(line))}`);
    picture.setAttribute('aria-label', `${title}: now ${words.join(', ')}; the scale ends at ${show(top)}`);
    figure.querySelectorAll('li').forEach((item, at) => {
      const value = last(lines[at]);
      const strong = document.createElement('b');
      strong.textContent = value === null ? '–' : show(value);
      item.replaceChildren(`${lines[at].name} `, strong);
    });
    figure.querySelector('.axis').textContent = `0 to ${show(top)}, last ${span < 120 ? `${span} seconds` : `${Math.round(span / 60)} minutes`}`;
  }

  // How many waits are between each session and one that waits for nothing; cycles are cut.
  function ranks(nodes, edges) {
    const next = new Map(nodes.map(node => [node, []]));
    for (const { from, to } of edges) next.get(from).push(to);
    const rank = new Map(), path = new Set();
    function walk(node) {
      if (rank.has(node)) return rank.get(node);
      path.add(node);
      let most = 0;
      for (const to of next.get(node)) if (!path.has(to)) most = Math.max(most, walk(to) + 1);
      path.delete(node);
      rank.set(node, most);
      return most;
    }
    nodes.forEach(walk);
    return rank;
  }

  // Sessions as boxes, waits as arrows from waiter to holder. `label` names a session.
  function graph(edges, label, open) {
    const nodes = [...new Set(edges.flatMap(edge => [edge.from, edge.to]))];
    const rank = ranks(nodes, edges);
    const deepest = Math.max(0, ...rank.values());
    const columns = Array.from({ length: deepest + 1 }, () => []);
    for (const node of nodes) columns[deepest - rank.get(node)].push(node);
    const filled = columns.filter(column => column.length);
    const wide = 150, high = 34, gapX = 150, gapY = 30, edge = 46;
    const rows = Math.max(1, ...filled.map(column => column.length));
    const width = filled.length * wide + (filled.length - 1) * gapX + 2 * edge;
    const height = rows * high + (rows - 1) * gapY + 2 * edge;
    const place = new Map();
    filled.forEach((column, x) => column.forEach((node, index) => {
      const free = height - 2 * edge - column.length * high - (column.length - 1) * gapY;
      place.set(node, { x: edge + x * (wide + gapX), y: edge + free / 2 + index * (high + gapY) });
    }));
    const picture = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img',
      'aria-label': `${nodes.length} sessions, ${edges.length} waits; the table below says the same` });
    picture.append(svg('defs', {}, svg('marker', { id: 'tip', viewBox: '0 0 10 10', refX: 9, refY: 5,
      markerWidth: 8, markerHeight: 8, orient: 'auto-start-reverse' }, svg('path', { d: 'M0 0L10 5L0 10z' }))));
    const names = [];
    edges.forEach((one, index) => {
      const from = place.get(one.from), to = place.get(one.to);
      const back = to.x <= from.x;
      // An arrow over a column goes above what is in it.
      const over = to.x - from.x > wide + gapX + 1;
      const start = { x: from.x + (back ? wide / 2 : wide), y: from.y + (back ? high : high / 2) };
      const end = { x: to.x + (back ? wide / 2 : 0), y: to.y + (back ? high : high / 2) };
      const bend = back ? 50 : Math.max(40, (end.x - start.x) / 2);
      const path = over
        ? `M${from.x + wide / 2} ${from.y}C${from.x + wide} ${from.y - 52} ${to.x} ${to.y - 52} ${to.x + wide / 2} ${to.y}`
        : back
        ? `M${start.x - 12} ${start.y}C${start.x - 12} ${start.y + bend} ${end.x + 12} ${end.y + bend} ${end.x + 12} ${end.y}`
        : `M${start.x} ${start.y}C${start.x + bend} ${start.y} ${end.x - bend} ${end.y} ${end.x} ${end.y}`;
      picture.append(svg('path', { class: 'edge', d: path, 'marker-end': 'url(#tip)' }));
      // Names of arrows that go the same way are put along them, not on each other.
      const along = back || over ? 0.5 : 0.35 + (index % 3) * 0.12;
      const x = start.x + (end.x - start.x) * along;
      const y = start.y + (end.y - start.y) * along + (over ? -high / 2 - 36 : back ? 42 : -4);
      const name = svg('text', { class: 'edge-name', x, y, 'text-anchor': 'middle' });
      name.textContent = short(one.name, 22);
      names.push(name);
    });
    picture.append(...names);
    for (const node of nodes) {
      const { x, y } = place.get(node);
      const holds = edges.some(one => one.to === node);
      const text = svg('text', { x: x + wide / 2, y: y + high / 2 + 4, 'text-anchor': 'middle' });
      text.textContent = short(label(node), 20);
      const link = svg('a', { href: open(node), class: holds ? 'node holds' : 'node' },
        svg('rect', { x, y, width: wide, height: high, rx: 8 }), text);
      picture.append(link);
    }
    return picture;
  }

  // The owners of a deadlock in a ring, each with an arrow to the next.
  function circle(owners) {
    const size = 92, middle = size / 2, radius = owners.length > 1 ? 30 : 0;
    const picture = svg('svg', { width: size, height: size, viewBox: `0 0 ${size} ${size}`,
      'aria-hidden': 'true' });
    const shown = owners.slice(0, 8);
    picture.append(svg('circle', { cx: middle, cy: middle, r: 30, fill: 'none', class: 'edge' }));
    shown.forEach((owner, at) => {
      const angle = at / shown.length * 2 * Math.PI - Math.PI / 2;
      const x = middle + radius * Math.cos(angle), y = middle + radius * Math.sin(angle);
      const text = svg('text', { x, y: y + 4, 'text-anchor': 'middle' });
      text.textContent = short(owner, 4);
      picture.append(svg('g', { class: 'node' }, svg('circle', { cx: x, cy: y, r: 13, class: 'owner' }), text));
    });
    return picture;
  }

  function short(text, most) {
    return text.length > most ? `${text.slice(0, most - 5)}…${text.slice(-4)}` : text;
  }

  return { plot, graph, circle, short };
})();
