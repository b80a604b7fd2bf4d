/** Ranges of charts, and positions of steps in curves. */

/** The first index whose value is not below `x`. @param {ArrayLike<number>} xs @param {number} x */
export function placeOf(xs, x) {
  let low = 0;
  let high = xs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The nearest index; -1 for an empty curve. */
export function nearest(xs, x) {
  const after = placeOf(xs, x);
  if (after === 0) return xs.length ? 0 : -1;
  if (after === xs.length) return after - 1;
  return xs[after] - x < x - xs[after - 1] ? after : after - 1;
}

/** @param {import("../source.js").Curve[]} curves */
export function xRange(curves) {
  let low = Infinity;
  let high = -Infinity;
  for (const curve of curves) {
    if (!curve.count) continue;
    low = Math.min(low, curve.x[0]);
    high = Math.max(high, curve.x[curve.count - 1]);
  }
  if (low > high) return [0, 1];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

/** The range of y: of everything, or with `robust` from the 1st to the 99th of 100 values.
 * @param {import("../source.js").Curve[]} curves @param {string} kind linear, log or symlog
 * @param {boolean} robust @param {number[]} also values that must be visible */
export function yRange(curves, kind, robust, also = []) {
  const values = also.filter((value) => Number.isFinite(value) && (kind !== "log" || value > 0));
  for (const curve of curves) {
    for (let place = 0; place < curve.count; place += 1) {
      for (const value of robust ? [curve.last[place]] : [curve.min[place], curve.max[place]]) {
        if (Number.isFinite(value) && (kind !== "log" || value > 0)) values.push(value);
      }
    }
  }
  if (!values.length) return kind === "log" ? [0.1, 1] : [0, 1];
  values.sort((a, b) => a - b);
  const cut = robust ? Math.floor(values.length / 100) : 0;
  const [low, high] = [values[cut], values[values.length - 1 - cut]];
  if (kind === "log") {
    const share = low === high ? 2 : (high / low) ** 0.05;
    return [low / share, high * share];
  }
  const room = high === low ? Math.abs(high) * 0.1 || 1 : (high - low) * 0.05;
  return [low - room, high + room];
}

/** Return whether values are positive and span three powers of ten, so that a linear chart is useless. */
export function isSpread(curves) {
  let [low, high] = [Infinity, -Infinity];
  for (const curve of curves) {
    for (const value of curve.min) if (Number.isFinite(value)) low = Math.min(low, value);
    for (const value of curve.max) if (Number.isFinite(value)) high = Math.max(high, value);
  }
  return low > 0 && high / low > 1000;
}

/** x of a step in a curve; the step itself if the curve does not have it. */
export function xOfStep(curves, step) {
  const curve = curves.reduce((best, each) => (each.count > (best?.count ?? 0) ? each : best), null);
  if (!curve) return step;
  const after = placeOf(curve.step, step);
  if (after < curve.count && curve.step[after] === step) return curve.x[after];
  if (after === 0 || after === curve.count) return curve.x[Math.min(after, curve.count - 1)];
  const share = (step - curve.step[after - 1]) / (curve.step[after] - curve.step[after - 1]);
  return curve.x[after - 1] + share * (curve.x[after] - curve.x[after - 1]);
}

/** Exponential smoothing that restarts after values that are not finite; of logarithms on a log scale.
 * @param {ArrayLike<number>} values @param {number} weight 0 to 1 @param {boolean} log */
export function smoothed(values, weight, log = false) {
  let level = NaN;
  const levels = Float64Array.from(values, (value) => {
    const here = log ? Math.log(value) : value;
    level = !Number.isFinite(here) ? NaN : Number.isFinite(level)
      ? weight * level + (1 - weight) * here : here;
    return level;
  });
  return log ? levels.map(Math.exp) : levels;
}

const MOST_TICKS = 7;

/** Ticks of a logarithmic axis: every n-th power of ten; within one power 1, 2, 5.
 * A range with fewer than two such ticks gets ticks at equal distances.
 * @param {string} kind log or symlog */
export function splits(kind, low, high) {
  const found = logarithmic(kind, low, high);
  return found.length > 1 ? found : even(low, high);
}

/** About five ticks at distances of 1, 2 or 5 times a power of ten. */
export function even(low, high) {
  const raw = (high - low) / 5;
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const distance = power * ([1, 2, 5, 10].find((each) => each * power >= raw) ?? 10);
  const first = Math.ceil(low / distance);
  const count = Math.floor(high / distance) - first + 1;
  return Array.from({ length: Math.max(count, 0) }, (_, place) => (first + place) * distance);
}

function logarithmic(kind, low, high) {
  if (kind === "log") return powers(low, high);
  const negative = low < 0 ? powers(Math.max(1e-3, -Math.min(high, 0)), -low).map((each) => -each) : [];
  const positive = high > 0 ? powers(Math.max(1e-3, low), high) : [];
  return [...negative.reverse(), ...(low <= 0 && high >= 0 ? [0] : []), ...positive];
}

function powers(low, high) {
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  const found = [];
  const every = Math.max(1, Math.ceil((last - first) / MOST_TICKS));
  const parts = last - first <= 3 ? [1, 2, 5] : [1];
  for (let power = first; power <= last; power += every) {
    for (const part of parts) found.push(Number(`${part}e${power}`));
  }
  return found.filter((each) => each >= low && each <= high);
}
