// Texts whose contrast with what is behind them is below 4.5 to 1, as WCAG 2 counts it.
(() => {
  const parse = text => {
    const parts = text.match(/[\d.]+/g)?.map(Number);
    if (!parts) return null;
    const scale = text.startsWith('color(') ? 255 : 1;
    return { rgb: parts.slice(0, 3).map(part => part * scale), alpha: parts[3] ?? 1 };
  };
  const light = rgb => {
    const [r, g, b] = rgb.map(part => part / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const over = (top, below) => top.rgb.map((part, at) => part * top.alpha + below[at] * (1 - top.alpha));
  const behind = node => {
    if (!node) return [255, 255, 255];
    const own = parse(getComputedStyle(node).backgroundColor);
    return own?.alpha ? over(own, own.alpha < 1 ? behind(node.parentElement) : own.rgb) : behind(node.parentElement);
  };
  const pale = [];
  for (const node of document.querySelectorAll('body *')) {
    const text = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
    if (!text || node.disabled || !node.checkVisibility()) continue;
    const style = getComputedStyle(node), ground = behind(node);
    const ink = parse(node instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(over(ink, ground)), light(ground)].sort((one, other) => other - one);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) pale.push(`${node.tagName}.${node.className}: ${node.textContent.trim().slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return pale;
})()
