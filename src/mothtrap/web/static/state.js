/** The state of the page, which is its address: `#/curves?run=a&name=train/loss&from=10`. */
import { computed, signal } from "@preact/signals";

export const VIEWS = [
  { id: "runs", title: "Runs", key: "r", run: false },
  { id: "overview", title: "Overview", key: "o", run: true },
  { id: "findings", title: "Findings", key: "f", run: true },
  { id: "check", title: "Check", key: "k", run: true },
  { id: "probe", title: "Probe", key: "b", run: true },
  { id: "curves", title: "Curves", key: "c", run: true },
  { id: "layers", title: "Layers", key: "l", run: true },
  { id: "tensors", title: "Tensors", key: "t", run: true },
  { id: "histograms", title: "Histograms", key: "h", run: true },
  { id: "samples", title: "Samples", key: "s", run: true },
  { id: "compare", title: "Compare", key: "d", run: true },
  { id: "record", title: "Record", key: "e", run: true },
  { id: "logs", title: "Logs", key: "u", run: true },
];

/** Views that some runs have no data for. */
const MAY_BE_EMPTY = ["check", "probe", "curves", "layers", "tensors", "histograms", "samples", "logs"];
const OF_TRAINING = MAY_BE_EMPTY.slice(2);

/** The views that are shown for a run: the views with data, and the open view.
 * @param {string[] | undefined} filled of `/api/run`; undefined while it is unknown */
export const viewsOf = (filled) => VIEWS.filter((each) => !each.run || (run.value &&
  (each.id === view.value || !MAY_BE_EMPTY.includes(each.id) || (filled ?? OF_TRAINING).includes(each.id))));

const address = signal(location.hash);
window.addEventListener("hashchange", () => { address.value = location.hash; });

/** @param {string} hash */
export function parsed(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?", 2);
  return { view: path || "runs", query: new URLSearchParams(query || "") };
}

export const place = computed(() => parsed(address.value));
export const view = computed(() =>
  VIEWS.some((known) => known.id === place.value.view) ? place.value.view : "runs");
export const run = computed(() => place.value.query.get("run") || "");

/** Values of a parameter of the address. @param {string} name */
export const values = (name) => place.value.query.getAll(name);
/** @param {string} name @param {string} otherwise */
export const value = (name, otherwise = "") => place.value.query.get(name) ?? otherwise;

/** The address of a view. Values may be lists; null and "" leave a parameter out.
 * @param {string} id @param {Record<string, unknown>} parameters */
export function href(id, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, given] of Object.entries(parameters)) {
    for (const each of Array.isArray(given) ? given : [given]) {
      if (each !== null && each !== undefined && each !== "") query.append(name, String(each));
    }
  }
  const text = query.toString();
  return `#/${id}${text ? `?${text}` : ""}`;
}

/** The address of a view of the run. @param {string} id @param {object} [parameters] */
export const inRun = (id, parameters) => href(id, { run: run.value, ...parameters });

/** The address of a finding of the run. @param {string} finding its fingerprint */
export const toFinding = (finding) => inRun("findings", { finding });

/** Go somewhere; `replace` leaves no entry in the history. */
export function go(id, parameters, replace = false) {
  const target = href(id, parameters);
  if (target === location.hash) return;
  if (replace) {
    history.replaceState(null, "", target);
    address.value = target;
  } else {
    location.hash = target;
  }
}

/** Change parameters of the current view. @param {Record<string, unknown>} changes */
export function change(changes, replace = true) {
  const now = {};
  for (const name of new Set(place.value.query.keys())) now[name] = values(name);
  go(place.value.view, { ...now, ...changes }, replace);
}

/** A sentence that screen readers read aloud. */
export const spoken = signal("");
/** Whether the list of keys is shown. */
export const help = signal(false);
