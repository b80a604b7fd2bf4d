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

/** Ticks of an axis, with as many digits as tell neighbors apart. @param {number[]} values */
export function ticks(values) {
  for (let digits = 4; digits < 12; digits += 1) {
    const texts = values.map((value) => tick(value, digits));
    if (new Set(texts).size === texts.length) return texts;
  }
  return values.map(String);
}

/** Whether a finding belongs to a step: those of a probe or a served model do not. */
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

/** A rule's name as words. @param {string} name */
export function words(name) {
  const text = name.replaceAll("_", " ").replace("nonfinite", "non-finite");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A curve's name in words, without the folder of a script in it. @param {string} name */
export function shortCurve(name) {
  const [mode, what, ...rest] = name.split("/");
  if (mode === "fact") {
    const field = what.slice(what.indexOf(".") + 1).replaceAll("_", " ").replace("÷", " ÷ ");
    return `${field}, ${rest.join("/").replace(/^\w+=/, "")}`;
  }
  if (mode === "machine") return `${what.replaceAll("_", " ")} ${rest.join("/")}`.trim();
  if (rest.length === 1 && rest[0] === "*") return `${mode}/${what} of all tensors`;
  const short = name.replace(/(:)(?:[^\s]*\/)([^/\s]+:\d+)/g, "$1$2");
  const [, of, owner] = /^(train|eval)\/loss:(.+)$/.exec(short) ?? [];
  if (!of) return short;
  const place = /^\S+:\d+/.exec(owner)?.[0] ?? owner;  // without the optimizer
  return `${of === "eval" ? "evaluation loss" : "loss"} (${place})`;
}

/** The last parts of a place in the source. @param {string} location */
export function shortPlace(location) {
  const parts = location.split("/");
  return parts.length > 2 ? `…/${parts.slice(-2).join("/")}` : location;
}

/** What a curve shows, without whose it is: `gradient norm`, `loss`. @param {string} name */
export function quantity(name) {
  const [, what, of] = name.split("/", 3);
  return of && !what.includes(":") ? what.replace(".l2", " norm").replace(".", " ") : (what ?? name).split(":")[0];
}
