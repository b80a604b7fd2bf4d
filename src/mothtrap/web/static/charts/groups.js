/** Runs that differ only in their seed as one curve: the mean, and a band from minimum to maximum. */

/** Parameters that only seed random generators. */
const SEED = /(^|[._-])(seed|random_state)s?$/i;

/** A name for the group of each curve: the parameters that vary, without seeds.
 * @param {any[]} curves with `parameters` @param {string} by "seed", or a parameter */
export function groupsOf(curves, by) {
  const varying = [...new Set(curves.flatMap((curve) => Object.keys(curve.parameters)))].sort()
    .filter((name) => !SEED.test(name) && new Set(curves.map((curve) => curve.parameters[name])).size > 1);
  const names = by === "seed" ? varying : [by];
  return curves.map((curve) => names.map((name) => `${name} ${curve.parameters[name] ?? "not set"}`)
    .join(", ") || "all runs");
}

/** A curve for each group, at the steps that all its curves have.
 * @param {any[]} curves @param {string[]} groups the group of each curve */
export function joinedCurves(curves, groups) {
  return [...new Set(groups)].map((group) => mean(group, curves.filter((_, place) => groups[place] === group)));
}

function mean(group, curves) {
  const at = new Map();
  for (const curve of curves) {
    for (let place = 0; place < curve.count; place += 1) {
      const found = at.get(curve.step[place]) ?? { x: curve.x[place], values: [], bad: 0 };
      if (Number.isFinite(curve.last[place])) found.values.push(curve.last[place]);
      found.bad |= curve.bad[place];
      found.curves = (found.curves ?? 0) + 1;
      at.set(curve.step[place], found);
    }
  }
  const whole = [...at].filter(([step, found]) => found.curves === curves.filter((curve) => covers(curve, step)).length)
    .sort(([one], [other]) => one - other);
  const of = (make) => Float32Array.from(whole, ([, found]) => (found.values.length ? make(found.values) : NaN));
  return {
    name: `${group} (${curves.length} ${curves.length === 1 ? "run" : "runs"})`, count: whole.length,
    width: Math.max(...curves.map((curve) => curve.width)), note: "", parameters: curves[0].parameters,
    x: Float64Array.from(whole, ([, found]) => found.x), step: Float64Array.from(whole, ([step]) => step),
    min: of((values) => Math.min(...values)), max: of((values) => Math.max(...values)),
    last: of((values) => values.reduce((sum, value) => sum + value, 0) / values.length),
    bad: Uint8Array.from(whole, ([, found]) => found.bad),
  };
}

const covers = (curve, step) => curve.count > 0 && curve.step[0] <= step && step <= curve.step[curve.count - 1];
