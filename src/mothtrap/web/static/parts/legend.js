/** What the colors of a heatmap stand for. */
import { legendStops, nothingColor, zeroColor } from "../charts/palette.js";
import { number } from "../format.js";
import { html } from "../html.js";

/** @param {{low: number, high: number, ratio?: boolean, of: string, zero?: boolean,
 *   middle?: string, ends?: [string, string]}} props `middle`: meaning of the middle color */
export function Legend({ low, high, ratio = false, of, zero = true, middle = "", ends }) {
  const [from, to] = ends ?? [number(low), number(high)];
  return html`<p class="heat-legend"><span>${of}</span> <span>${from}</span>
    <i class="ramp" style=${{ background: `linear-gradient(90deg, ${legendStops(ratio).join(", ")})` }}></i>
    <span>${to}</span>${middle && html` <span class="muted">${middle}</span>`}
    ${zero && html`<span><i style=${{ background: zeroColor() }}></i>0</span>`}
    <span><i class="hatched"></i>not finite</span>
    <span><i style=${{ background: nothingColor() }}></i>not captured</span></p>`;
}
