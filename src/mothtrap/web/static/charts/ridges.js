/** Histograms of one tensor as ridges: the first step is behind, the last in front. */
import { number } from "../format.js";
import { html } from "../html.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [36, 246, 48, 148];
const MOST_LABELS = 6;
/** The place of 0 among the columns of `/api/histograms`, and of 2^0 from there. */
const [ZERO, ONE] = [64, 41];

/** The columns that histograms of one tensor share, and their greatest share.
 * @param {any[]} all of `/api/histograms` */
export function rangeOf(all) {
  const low = Math.min(...all.map((each) => each.low));
  const high = Math.max(...all.map((each) => each.high));
  const sizes = Array.from({ length: Math.max(0, high - low + 1) }, (_, place) => low + place);
  const below = all.some((each) => each.signed) ? sizes.map((size) => -size).reverse() : [];
  return { columns: [...below, 0, ...sizes], most: Math.max(1e-9, ...all.flatMap((each) => each.shares.flat())) };
}

/** @param {{of: any, range: any, color: string, said: string}} props */
export function Ridges({ of, range, color, said }) {
  const { columns, most } = range;
  const x = (place) => LEFT + (RIGHT - LEFT) * (place + 0.5) / columns.length;
  const last = of.steps.length - 1;
  const y = (row) => (last ? TOP + (BOTTOM - TOP) * row / last : BOTTOM);
  const every = Math.ceil((last + 1) / MOST_LABELS);
  return html`<svg viewBox="0 0 250 178" role="img" aria-label=${said} style=${{ color }}>
    ${of.steps.map((step, row) => html`<g key=${row}><title>step ${number(step)}</title>
      <path d=${`M${LEFT} ${y(row)}${columns.map((column, place) => `L${x(place).toFixed(1)} ${
        (y(row) - (TOP - 6) * of.shares[row][ZERO + column] / most).toFixed(1)}`).join("")}H${RIGHT}V${y(row)}`}
        style=${{ fill: `color-mix(in srgb, currentColor ${15 + 35 * row / (last || 1)}%, var(--panel))` }} />
      ${of.bad[row] > 0 && html`<text class="bad" x=${RIGHT} y=${y(row) - 1}>✖</text>`}
      ${(last - row) % every === 0 && html`<text x=${LEFT - 4} y=${y(row) + 3}>${number(step)}</text>`}</g>`)}
    ${columns.map((column, place) => [0, columns.at(0), columns.at(-1)].includes(column) && html`
      <text key=${column} x=${column < 0 ? LEFT + 28 : column ? RIGHT : x(place) + 3} y=${BOTTOM + 14}>${column ? `${column < 0 ? "−" : ""}2^${Math.abs(column) - ONE}` : "0"}</text>`)}
    <text x=${LEFT - 4} y="10">step</text><text x=${(LEFT + RIGHT) / 2 + 12} y=${BOTTOM + 26}>value</text></svg>`;
}
