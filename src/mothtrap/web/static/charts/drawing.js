/** Draws curves, the lane of values that are not finite, and marks on the canvas of a chart. */
import { color } from "./colors.js";
import { smoothed, xOfStep } from "./scale.js";

const LANE = 9;
const GLYPHS = { error: "✖", warning: "▲", info: "●", limit: "◆", crashed: "‼" };
const [SIGN_WIDTH, RANGE_ALPHA] = [13, 0.12];

/** Up to this number of points, each point is marked. */
const FEW = 60;

export class Drawing {
  /** @param {() => any} wanted what to draw now */
  constructor(wanted) { this.wanted = wanted; }

  /** @param {import("uplot").default} plot */
  draw(plot) {
    const wanted = this.wanted();
    const context = plot.ctx;
    const scale = devicePixelRatio || 1;
    const { left, top, width, height } = plot.bbox;
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    wanted.curves.forEach((curve, place) => {
      const apart = breaks(curve, wanted.gaps ?? []);
      this.#band(plot, curve, apart, wanted.colors[place], wanted);
      this.#line(plot, curve, apart, wanted.colors[place], scale, wanted);
    });
    if (wanted.near >= 0) this.#foremost(plot, wanted, scale);
    for (const curve of wanted.curves) this.#lane(plot, curve, scale);
    this.#references(plot, wanted, scale);
    context.restore();
    this.#marks(plot, wanted, scale);
    if (wanted.at !== null && wanted.at !== undefined) this.#cursor(plot, wanted, scale);
  }

  #band(plot, curve, apart, stroke, wanted) {
    if (curve.width === 1 && curve.count <= 1) return;
    const context = plot.ctx;
    context.beginPath();
    let begun = false;
    const ends = [];
    const close = () => {
      for (const [x, y] of ends.reverse()) context.lineTo(x, y);
      ends.length = 0;
      begun = false;
      context.closePath();
    };
    for (let place = 0; place < curve.count; place += 1) {
      const low = this.#y(plot, curve.min[place], wanted);
      const high = this.#y(plot, curve.max[place], wanted);
      if (begun && (low === null || high === null || apart[place])) close();
      if (low === null || high === null) continue;
      const x = plot.valToPos(curve.x[place], "x", true);
      if (begun) context.lineTo(x, high);
      else context.moveTo(x, high);
      begun = true;
      ends.push([x, low]);
    }
    if (begun) close();
    context.globalAlpha = 0.22;
    context.fillStyle = context.strokeStyle = stroke;
    context.fill();
    if (curve.width > 1) {  // a spike of one point is narrower than a pixel, so its edge is drawn
      context.globalAlpha = 0.4;
      context.lineWidth = devicePixelRatio || 1;
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  #line(plot, curve, apart, stroke, scale, wanted) {
    const context = plot.ctx;
    const plain = (values, alpha, width) => {
      context.beginPath();
      let before = false;
      for (let place = 0; place < curve.count; place += 1) {
        const y = this.#y(plot, values[place], wanted);
        if (y === null) { before = false; continue; }
        const x = plot.valToPos(curve.x[place], "x", true);
        if (before && !apart[place]) context.lineTo(x, y);
        else {
          context.moveTo(x, y);
          context.lineTo(x + 0.01, y);
        }
        before = true;
      }
      context.globalAlpha = alpha;
      context.strokeStyle = stroke;
      context.lineWidth = width * scale;
      context.lineJoin = context.lineCap = "round";
      context.stroke();
      this.#points(plot, curve, values, apart, stroke, scale, wanted);
      context.globalAlpha = 1;
    };
    if (wanted.smooth) {
      plain(curve.last, 0.3, 1);
      plain(smoothed(curve.last, wanted.smooth, wanted.scale === "log"), 1, 2);
    } else plain(curve.last, 1, wanted.curves.length > 20 ? 1 : 1.6);
  }

  /** Draw the curve at the pointer once more, wider and above the others. */
  #foremost(plot, wanted, scale) {
    const curve = wanted.curves[wanted.near];
    if (!curve) return;
    const apart = breaks(curve, wanted.gaps ?? []);
    this.#line(plot, curve, apart, color("--page"), 4 * scale, wanted);
    this.#line(plot, curve, apart, wanted.colors[wanted.near], 2 * scale, wanted);
  }

  /** Mark the points that no line connects to another point; if there are few points, mark all. */
  #points(plot, curve, values, apart, stroke, scale, wanted) {
    const context = plot.ctx;
    context.fillStyle = stroke;
    for (let place = 0; place < curve.count; place += 1) {
      const alone = apart[place] && (apart[place + 1] ?? true);
      if (!alone && curve.count > FEW) continue;
      const y = this.#y(plot, values[place], wanted);
      if (y === null) continue;
      context.beginPath();
      context.arc(plot.valToPos(curve.x[place], "x", true), y, 2.5 * scale, 0, 2 * Math.PI);
      context.fill();
    }
  }

  #lane(plot, curve, scale) {
    const context = plot.ctx;
    const { left, top, width, height } = plot.bbox;
    const bottom = top + height;
    const cell = Math.max(3 * scale, width / Math.max(curve.count, 1));
    context.fillStyle = color("--bad");
    for (let place = 0; place < curve.count; place += 1) {
      if (!curve.bad[place]) continue;
      const x = plot.valToPos(curve.x[place], "x", true);
      const from = Math.max(left, Math.min(x - cell / 2, left + width - 3 * scale));
      context.fillRect(from, bottom - LANE * scale, cell, LANE * scale);
    }
  }

  /** Dashed lines: at a value, or at a multiple of a curve. */
  #references(plot, wanted, scale) {
    const context = plot.ctx;
    const { left, width } = plot.bbox;
    context.strokeStyle = color("--limit");
    context.setLineDash([6 * scale, 4 * scale]);
    context.lineWidth = 1.5 * scale;
    const limit = wanted.limit ?? null;
    const lines = [...(wanted.lines ?? []), ...(limit === null ? [] : [{ value: limit, of: "" }])];
    for (const line of lines) {
      const curve = wanted.curves.find((each) => each.name === line.of);
      const points = curve
        ? Array.from(curve.last, (value, place) => [plot.valToPos(curve.x[place], "x", true), value * line.times])
        : [[left, line.value ?? NaN], [left + width, line.value ?? NaN]];
      context.beginPath();
      let before = false;
      for (const [x, value] of points) {
        const y = this.#y(plot, value, wanted);
        if (y !== null && before) context.lineTo(x, y);
        else if (y !== null) context.moveTo(x, y);
        before = y !== null;
      }
      context.stroke();
    }
    context.setLineDash([]);
  }

  #marks(plot, wanted, scale) {
    const context = plot.ctx;
    const { left, top, width, height } = plot.bbox;
    context.save();
    context.textAlign = "center";
    context.font = `${13 * scale}px system-ui, sans-serif`;
    const inside = (x) => Math.min(Math.max(x, left), left + width);
    const signs = [];
    for (const mark of foremost(wanted.marks ?? [])) {
      const [x, end] = [mark.step, mark.until ?? mark.step].map((step) =>
        plot.valToPos(xOfStep(wanted.curves, step), "x", true));
      if (end < left - 1 || x > left + width + 1) continue;
      context.strokeStyle = context.fillStyle = color(mark.severity === "crashed" ? "--error" : `--${mark.severity}`);
      if (end > x) {  // it began somewhere in between
        context.globalAlpha = RANGE_ALPHA;
        context.fillRect(inside(x), top, inside(end) - inside(x), height);
        context.globalAlpha = 1;
      }
      context.setLineDash([3 * scale, 3 * scale]);
      context.lineWidth = scale;
      context.beginPath();
      for (const side of end > x ? [x, end] : [x]) {
        if (side < left - 1 || side > left + width + 1) continue;
        context.moveTo(side, top);
        context.lineTo(side, top + height);
      }
      context.stroke();
      const sign = (inside(x) + inside(end)) / 2;
      if (signs.some((each) => Math.abs(each - sign) < SIGN_WIDTH * scale)) continue;
      signs.push(sign);
      context.fillText(GLYPHS[mark.severity] ?? "●", sign, top - 5 * scale);
    }
    context.restore();
  }

  #cursor(plot, wanted, scale) {
    const context = plot.ctx;
    const { top, height } = plot.bbox;
    const x = plot.valToPos(xOfStep(wanted.curves, wanted.at), "x", true);
    context.save();
    context.strokeStyle = color("--focus");
    context.lineWidth = 1.5 * scale;
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x, top + height);
    context.stroke();
    context.restore();
  }

  /** Position of a value; null if it is outside the scale. */
  #y(plot, value, wanted) {
    if (!Number.isFinite(value) || (wanted.scale === "log" && value <= 0)) return null;
    return plot.valToPos(value, "y", true);
  }
}

const RANKS = ["crashed", "error", "limit", "warning", "info"];

/** The worst mark of each step, the worst first: several marks of one step would overlap.
 * @param {{step: number, until?: number, severity: string}[]} marks */
export function foremost(marks) {
  const found = new Map();
  for (const mark of marks) {
    const before = found.get(mark.step);
    if (!before || RANKS.indexOf(mark.severity) < RANKS.indexOf(before.severity)) found.set(mark.step, mark);
  }
  return [...found.values()].sort((one, other) => RANKS.indexOf(one.severity) - RANKS.indexOf(other.severity));
}

/** For each point of a training curve, whether steps since the previous point were not watched.
 * @param {import("../source.js").Curve} curve
 * @param {[number, number][]} gaps first and last step of each gap, ascending */
export function breaks(curve, gaps) {
  const found = new Array(curve.count).fill(false);
  if (!curve.name.startsWith("train/")) return found;  // an evaluation falls between two gaps
  let gap = 0;
  for (let place = 1; place < curve.count; place += 1) {
    const [from, to] = [curve.step[place - 1] + curve.width, curve.step[place]];
    while (gap < gaps.length && gaps[gap][1] < from) gap += 1;
    found[place] = from < to && gap < gaps.length && gaps[gap][0] < to;
  }
  return found;
}
