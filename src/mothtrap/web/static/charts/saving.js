/** Saves a chart as PNG, SVG or CSV. */
import { number, shortCurve, ticks } from "../format.js";
import { html } from "../html.js";
import { save } from "../parts/save.js";
import { color } from "./colors.js";
import { breaks } from "./drawing.js";
import { even, smoothed, splits } from "./scale.js";

const [WIDTH, HEIGHT] = [900, 420];
const EDGE = { left: 80, right: 20, top: 30, bottom: 40 };

/** The visible canvas, on the background color of the page. */
export function savePng(plot, title) {
  const { width, height } = plot.ctx.canvas;
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [width, height];
  const context = copy.getContext("2d");
  context.fillStyle = color("--panel");
  context.fillRect(0, 0, width, height);
  context.drawImage(plot.ctx.canvas, 0, 0);
  copy.toBlob((blob) => save(blob, `${title}.png`));
}

/** Every drawn point; a point of several steps has the minimum, maximum and last value. */
export function csvOf(curves) {
  const rows = curves.flatMap((curve) => Array.from({ length: curve.count }, (_, place) =>
    [curve.name, curve.step[place], curve.width, curve.last[place], curve.min[place], curve.max[place]]));
  return ["curve,step,steps_in_point,last,min,max", ...rows.map((row) => row.map(quoted).join(","))].join("\r\n");
}

/** A cell of a CSV file; a text that a spreadsheet would read as a formula is escaped. */
function quoted(value) {
  if (typeof value === "number") return String(value);
  const safe = /^[=+@-]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export const saveCsv = (curves, title) => save(new Blob([csvOf(curves)], { type: "text/csv" }), `${title}.csv`);

/** The chart as lines of an SVG. @param {import("uplot").default} plot @param {any} wanted its properties */
export function svgOf(plot, wanted) {
  const log = wanted.scale === "log";
  const bend = (value) => (log ? Math.log10(value) : wanted.scale === "symlog" ? Math.asinh(value / 1e-3) : value);
  const [x, y] = [plot.scales.x, plot.scales.y];
  const px = (value) => EDGE.left + (WIDTH - EDGE.left - EDGE.right) * (value - x.min) / (x.max - x.min || 1);
  const py = (value) => HEIGHT - EDGE.bottom - (HEIGHT - EDGE.top - EDGE.bottom)
    * (bend(value) - bend(y.min)) / (bend(y.max) - bend(y.min) || 1);
  const at = (value) => value.toFixed(1);
  const xs = even(x.min, x.max);
  const ys = wanted.scale && wanted.scale !== "linear" ? splits(wanted.scale, y.min, y.max) : even(y.min, y.max);
  const [xTexts, yTexts] = [ticks(xs), ticks(ys)];
  const muted = color("--muted");
  const parts = [
    ...xs.map((value, place) => `<text x="${at(px(value))}" y="${HEIGHT - 20}" text-anchor="middle">${xTexts[place]}</text>`),
    ...ys.map((value, place) => `<path d="M${EDGE.left} ${at(py(value))}H${WIDTH - EDGE.right}" stroke="${color("--grid")}"/>
      <text x="${EDGE.left - 8}" y="${at(py(value) + 4)}" text-anchor="end">${yTexts[place]}</text>`),
    `<text x="${WIDTH / 2}" y="${HEIGHT - 4}" text-anchor="middle">${escaped(wanted.axis ?? "step")}</text>`,
    ...wanted.curves.map((curve, place) => path(curve, wanted, wanted.colors[place], px, py, log)),
    ...wanted.curves.slice(0, 12).map((curve, place) => `<text x="${EDGE.left + 8}" y="${EDGE.top + 14 * place}"
      fill="${wanted.colors[place]}">${escaped(shortCurve(curve.name))}</text>`),
    ...(wanted.lines ?? []).filter((line) => line.value !== null).map((line) =>
      `<path d="M${EDGE.left} ${at(py(line.value))}H${WIDTH - EDGE.right}" stroke="${color("--limit")}" stroke-dasharray="6 4"/>`),
  ];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12" fill="${muted}">
<title>${escaped(wanted.title)}, steps ${number(x.min)} to ${number(x.max)}</title>
<rect width="${WIDTH}" height="${HEIGHT}" fill="${color("--panel")}"/>${parts.join("")}</svg>`;
}

function path(curve, wanted, stroke, px, py, log) {
  const apart = breaks(curve, wanted.gaps ?? []);
  const values = wanted.smooth ? smoothed(curve.last, wanted.smooth, log) : curve.last;
  let text = "";
  let before = false;
  for (let place = 0; place < curve.count; place += 1) {
    const there = Number.isFinite(values[place]) && !(log && values[place] <= 0);
    if (there) text += `${before && !apart[place] ? "L" : "M"}${px(curve.x[place]).toFixed(1)} ${py(values[place]).toFixed(1)}`;
    before = there;
  }
  return `<path d="${text}" fill="none" stroke="${stroke}" stroke-width="1.6" stroke-linecap="round"/>`;
}

const escaped = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

export const saveSvg = (plot, wanted) =>
  save(new Blob([svgOf(plot, wanted)], { type: "image/svg+xml" }), `${wanted.title}.svg`);

/** Buttons that save a chart. @param {{plot: () => import("uplot").default, wanted: () => any}} props */
export function Saves({ plot, wanted }) {
  return html`<li>Save ${" "}<button class="plain" onClick=${() => savePng(plot(), wanted().title)}>PNG</button>
    ${" "}<button class="plain" onClick=${() => saveSvg(plot(), wanted())}>SVG</button>
    ${" "}<button class="plain" onClick=${() => saveCsv(wanted().curves, wanted().title)}>CSV</button></li>`;
}
