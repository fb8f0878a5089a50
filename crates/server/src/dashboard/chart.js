// The chart of requests a second, with axes and a line of figures under the pointer or the arrow keys.
import { h, s, fill, number } from "./dom.js";

const HEIGHT = 170, LEFT = 42, BOTTOM = 24;

/** `series`: `{kind, name}`; `points`: `{at_ms, rates: {kind: number}}`, oldest first, over at most `length_ms`. */
export class Chart {
  constructor(series, length_ms) {
    Object.assign(this, { series, length_ms, points: [], picked: null });
    this.svg = s("svg", { role: "img", height: HEIGHT, tabindex: 0 });
    this.tip = h("div", { class: "tip", hidden: true });
    this.box = h("div", { class: "chart" }, this.svg, this.tip);
    this.svg.addEventListener("pointermove", event => this.pick(event.offsetX));
    this.svg.addEventListener("pointerleave", () => { this.picked = null; this.draw(); });
    this.svg.addEventListener("blur", () => { this.picked = null; this.draw(); });
    this.svg.addEventListener("keydown", event => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !this.points.length) return;
      event.preventDefault();
      this.picked = Math.max(0, Math.min(this.points.length - 1, (this.picked ?? this.points.length) + step));
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(this.box);
  }
  show(points) { this.points = points; this.draw(); }
  x(point) { return LEFT + (this.width - LEFT) * (1 - (this.now - point.at_ms) / this.length_ms); }
  pick(x) {
    let best = null;
    this.points.forEach((point, at) => { if (best === null || Math.abs(this.x(point) - x) < Math.abs(this.x(this.points[best]) - x)) best = at; });
    this.picked = best;
    this.draw();
  }
  draw() {
    this.width = this.box.clientWidth;
    if (!this.width) return;
    this.now = this.points.at(-1)?.at_ms ?? 0;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    const total = point => this.series.reduce((sum, { kind }) => sum + point.rates[kind], 0);
    const most = Math.max(10, ...this.points.map(total)), step = 10 ** Math.floor(Math.log10(most)), top = Math.ceil(most / step * 2) / 2 * step;
    const y = rate => (HEIGHT - BOTTOM - 10) * (1 - rate / top) + 10;
    const shapes = [];
    for (const share of [0, .5, 1]) {
      shapes.push(s("line", { x1: LEFT, x2: this.width, y1: y(top * share), y2: y(top * share) }));
      shapes.push(s("text", { x: LEFT - 6, y: y(top * share) + 4, "text-anchor": "end" }, number(top * share)));
    }
    const minutes = this.length_ms / 60000;
    for (let part = 0; part <= 4; part += 1) {
      const anchor = part === 0 ? "start" : part === 4 ? "end" : "middle", ago = minutes * (1 - part / 4);
      shapes.push(s("text", { x: LEFT + (this.width - LEFT) * part / 4, y: HEIGHT - 4, "text-anchor": anchor }, part === 4 ? "now" : `−${ago < 1 ? `${ago * 60} s` : `${ago} min`}`));
    }
    let base = this.points.map(() => 0);
    for (const { kind } of this.series) {
      if (!this.points.some(point => point.rates[kind] > 0)) continue;
      const under = base;
      base = base.map((rate, at) => rate + this.points[at].rates[kind]);
      const upper = this.points.map((point, at) => `${this.x(point).toFixed(1)},${y(base[at]).toFixed(1)}`);
      const lower = this.points.map((point, at) => `${this.x(point).toFixed(1)},${y(under[at]).toFixed(1)}`).reverse();
      shapes.push(s("polygon", { points: [...upper, ...lower].join(" "), class: `c-${kind}` }));
    }
    const picked = this.picked === null ? null : this.points[this.picked];
    if (picked) {
      shapes.push(s("line", { x1: this.x(picked), x2: this.x(picked), y1: 10, y2: y(0), class: "cursor" }));
      const lines = this.series.filter(({ kind }) => picked.rates[kind] > 0).map(({ kind, name }) => h("div", {}, `${name}: ${number(picked.rates[kind])}/s`));
      fill(this.tip, h("b", {}, new Date(picked.at_ms).toLocaleTimeString()), lines.length ? lines : h("div", {}, "no requests"));
    }
    this.tip.hidden = !picked;
    if (picked) this.tip.style.left = `${Math.max(0, Math.min(this.x(picked) + 8, this.width - this.tip.offsetWidth))}px`;
    const last = this.points.at(-1);
    this.svg.setAttribute("aria-label", `Requests a second; now ${last ? number(total(last)) : "unknown"}, at most ${number(this.points.length ? Math.max(...this.points.map(total)) : 0)}`);
    this.svg.replaceChildren(...shapes);
  }
}
