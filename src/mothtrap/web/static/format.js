/** Numbers, times and words as the page shows them. */

/** @param {number} value */
export function number(value) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Inf" : "-Inf";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(2);
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return Number(value.toPrecision(4)).toString();
}

/** A tick of an axis: short. @param {number} value @param {number} digits */
function tick(value, digits) {
  const size = Math.abs(value);
  if (size >= 1e5 || (size !== 0 && size < 1e-3)) {
    return value.toExponential(digits - 3).replace(/\.?0*e/, "e").replace("e+", "e");
  }
  return Number(value.toPrecision(digits)).toLocaleString("en-US", { maximumFractionDigits: 12 });
}

/** Ticks of an axis, with enough digits to distinguish neighbors. @param {number[]} values */
export function ticks(values) {
  for (let digits = 4; digits < 12; digits += 1) {
    const texts = values.map((value) => tick(value, digits));
    if (new Set(texts).size === texts.length) return texts;
  }
  return values.map(String);
}

/** First and last step between which a fault began; equal if the step is known.
 * @param {any} finding @returns {[number, number]} */
export const onset = (finding) => [finding.step, Math.max(finding.step, Number(finding.evidence.onset_at_latest ?? -1))];

/** The first rank of a finding, whose curves show it; null if it is rank 0.
 * @param {any} finding */
export const rankOf = (finding) => finding.workers[0] || null;

/** The mark of a finding in a chart. @param {any} finding */
export function markOf(finding) {
  const [step, until] = onset(finding);
  return { step, until, severity: finding.severity, label: finding.name };
}

/** Return whether a finding belongs to a step: findings about a probed or served model do not. */
export const hasStep = (finding) => finding.mode !== "probe" && finding.mode !== "serve";

/** @param {number} count @param {string} noun */
export function counted(count, noun) {
  const plural = noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${count.toLocaleString("en-US")} ${count === 1 ? noun : plural}`;
}

/** A duration in the two largest units. @param {number} seconds */
export function duration(seconds) {
  if (!(seconds >= 0)) return "unknown";
  if (seconds < 1) return "under 1 s";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

/** @param {number} unix seconds, 0 = unknown */
export function moment(unix) {
  if (!unix) return "unknown";
  const date = new Date(unix * 1000);
  const two = (value) => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
    `${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** The fault of a finding as words. @param {{title: string, name: string}} finding */
export const named = (finding) => words(finding.title || finding.name);

/** A text that begins with a capital letter. @param {string} text */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A rule's name as words. @param {string} name */
export const words = (name) => capital(name.replaceAll("_", " ").replace("nonfinite", "non-finite"));

/** A curve's name in words, without the folder of a script in it. @param {string} name */
export function shortCurve(name) {
  const [mode, what, ...rest] = name.split("/");
  if (mode === "fact") {
    const field = what.slice(what.indexOf(".") + 1).replaceAll("_", " ").replace("÷", " ÷ ");
    return `${field}, ${rest.join("/").replace(/^\w+=/, "")}`;
  }
  if (mode === "machine") return `${what.replaceAll("_", " ")} ${rest.join("/")}`.trim();
  if (!(mode in MODES)) return name;  // a name of a run
  const before = MODES[mode];
  if (rest.length && isStatistic(what)) {
    return `${before}${quantity(name)} of ${rest[0] === "*" ? "all tensors" : rest.join("/")}`;
  }
  const short = name.replace(/(:)(?:[^\s]*\/)([^/\s]+:\d+)/g, "$1$2").slice(mode.length + 1);
  const [, scalar, owner] = /^([^:]+):?(.*)$/.exec(short) ?? [];
  if (!scalar) return name;
  const place = scalar !== "loss" ? owner
    : /^\S+:\d+/.exec(owner)?.[0] ?? owner.replace(/^unknown /, "");  // without the optimizer
  return `${before}${SCALARS[scalar] ?? scalar.replaceAll("_", " ")}${place && ` (${place})`}`;
}

const MODES = { train: "", eval: "evaluation ", predict: "prediction " };
/** Whether this part of a curve's name is a statistic of a tensor, such as `gradient.l2`. */
const isStatistic = (what) => what.includes(".") && !what.includes(":");
/** Scalars that mothtrap records, with their unit. */
const SCALARS = { lr: "learning rate", step_s: "step time, s", own_s: "time of mothtrap, s", memory_bytes: "memory, bytes",
  micro_batches: "micro-batches", skipped: "skipped steps" };

/** The last parts of a place in the source. @param {string} location */
export function shortPlace(location) {
  const parts = location.split("/");
  return parts.length > 2 ? `…/${parts.slice(-2).join("/")}` : location;
}

const STATISTICS = { l2: "norm", nan: "NaN elements", inf: "infinite elements" };

/** What a curve shows, without its owner: `gradient norm`, `loss`. @param {string} name */
export function quantity(name) {
  const [, what, of] = name.split("/", 3);
  if (!of || !isStatistic(what)) return (what ?? name).split(":")[0];
  const [kind, statistic] = what.split(".");
  return `${kind} ${STATISTICS[statistic] ?? statistic.replaceAll("_", " ")}`;
}
