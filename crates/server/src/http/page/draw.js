// Plots, and the rings of deadlocks, as SVG. Sizes are numbers of this file; colours are the style sheet's.
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
      picture = svg('svg', { class: 'plot', viewBox: `0 -3 ${width} ${height + 6}`,
        preserveAspectRatio: 'none', role: 'img' });
      const values = document.createElement('div'), times = document.createElement('div');
      values.className = 'values';
      times.className = 'times';
      for (const axis of [values, times]) axis.append(document.createElement('span'), document.createElement('span'));
      figure.append(caption, values, picture, times);
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
    // Of what is not measured each second, the last that was.
    const last = line => line.values.findLast(value => value !== null) ?? null;
    const words = lines.map(line => `${line.name} ${last(line) === null ? 'none' : show(last(line))}`);
    picture.setAttribute('aria-label', `${title}: now ${words.join(', ')}; the scale ends at ${show(top)}`);
    figure.querySelectorAll('li').forEach((item, at) => {
      const value = last(lines[at]);
      const strong = document.createElement('b');
      strong.textContent = value === null ? '–' : show(value);
      item.replaceChildren(`${lines[at].name} `, strong);
    });
    const [most, least] = figure.querySelector('.values').children, [begin, end] = figure.querySelector('.times').children;
    most.textContent = show(top);
    least.textContent = '0';
    begin.textContent = span < 120 ? `${span} s ago` : `${Math.round(span / 60)} min ago`;
    end.textContent = 'now';
  }

  // The owners of a deadlock in a ring, each with an arrow to the next.
  function cycle(owners) {
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

  return { svg, plot, cycle, short };
})();
