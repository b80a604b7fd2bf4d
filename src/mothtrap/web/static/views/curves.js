/** Curves: how a number moved. Up to eight on one canvas, over steps, time, epochs or samples. */
import { LineChart } from "../charts/line.js";
import { nearest } from "../charts/scale.js";
import { findingsAnswer, runAnswer, source, ticks } from "../data.js";
import { counted, number, shortCurve } from "../format.js";
import { html } from "../html.js";
import { TickList } from "../parts/list.js";
import { Empty, Notice } from "../parts/notice.js";
import { useAnswer } from "../parts/use.js";
import { useZoom, whole } from "../parts/zoom.js";
import { change, run, value, values } from "../state.js";
import { CaptureMore } from "./capture.js";
import { RuleOfThis, firingMarks, useTrial } from "./limit.js";

const MOST = 8;
const AXES = { step: "step", time: "time", epoch: "epoch", samples: "samples" };
const PLUMBING = /^\w+\/(own_s|step_s|skipped|micro_batches|gradient_state|stale_gradient|memory_bytes)/;

export function Curves() {
  const names = useAnswer((signal) => source.names(run.value, signal), run.value, ticks.finding.value);
  const about = runAnswer.value.value;
  const asked = values("name").filter(Boolean).slice(0, MOST);
  const chosen = asked.length ? asked : (about?.losses ?? []).slice(0, MOST);
  const from = whole(value("from"));
  const to = whole(value("to"));
  const axis = value("x", "step");
  const answer = useAnswer((signal) => (chosen.length
    ? source.series(run.value, { name: chosen, from, to, x: axis, px: 1200 }, signal) : null),
  `${run.value} ${JSON.stringify([chosen, from, to, axis])}`, ticks.step.value);
  const trial = useTrial();
  useZoom(from, to, about?.steps ?? 0);
  const toggle = (name) => change({ name: chosen.includes(name)
    ? chosen.filter((each) => each !== name) : [...chosen, name].slice(-MOST) });
  const curves = answer.value?.curves ?? [];
  const scale = value("scale", "linear");
  return html`<h1 class="hidden">Curves</h1>
    <div class="split curves">
      <aside aria-label="Choice of curves">
        ${names.value ? html`<${Choice} names=${names.value} chosen=${chosen} toggle=${toggle} />`
          : html`<${Notice} found=${names} what="the names" />`}
        <${CaptureMore} />
      </aside>
      <div>
        <${Tools} axes=${names.value?.axes ?? ["step"]} axis=${axis} scale=${scale} from=${from} to=${to} />
        ${about && !chosen.length && html`<${Empty}>Select curves on the left.</${Empty}>`}
        <${Notice} found=${answer} what="the curves" />
        ${curves.length > 0 && html`<${LineChart} curves=${curves} gaps=${runAnswer.value.value?.gaps} title=${titleOf(curves)} axis=${axis}
          scale=${scale} robust=${value("range") === "robust"} smooth=${Number(value("smooth", "0"))}
          height=${430} marks=${[...marks(from, to), ...firingMarks(trial)]} at=${whole(value("at"))}
          limit=${trial.value && value("limit") !== "" ? Number(value("limit")) : null}
          onAt=${(step) => change({ at: step })}
          onZoom=${(begin, end) => change({ from: begin, to: end }, false)} />
          <p class="muted">${width(curves)}</p>
          <${RuleOfThis} chosen=${chosen} trial=${trial} atValue=${valueAt(curves[0])} />`}
      </div>
    </div>`;
}

/** The value of a curve at the cursor. */
function valueAt(curve) {
  const at = whole(value("at"));
  const found = at === null || !curve.count ? NaN : curve.last[nearest(curve.step, at)];
  return Number.isFinite(found) ? found : null;
}

const titleOf = (curves) => (curves.length === 1 ? shortCurve(curves[0].name)
  : counted(curves.length, "curve"));

/** How many steps a point stands for, where it is more than one. */
function width(curves) {
  const widest = Math.max(...curves.map((curve) => curve.width));
  return widest > 1 ? `Each point covers ${widest} steps. The line shows the last value, the band the ` +
    "range from lowest to highest. Drag or press w to zoom in." : "Each captured step is a point.";
}

function marks(from, to) {
  const found = findingsAnswer.value.value;
  const told = found ? Object.values(found.findings).map((each) => each.finding) : [];
  return told.filter((each) => each.severity !== "info" && each.step >= (from ?? 0) &&
    each.step <= (to ?? Infinity)).slice(0, 20).map((each) =>
    ({ step: each.step, severity: each.severity, label: each.name }));
}

function Tools({ axes, axis, scale, from, to }) {
  const select = (label, name, now, choices) => html`<label>${label} <select value=${now}
      onChange=${(event) => change({ [name]: event.target.value })}>
    ${choices.map(([id, text]) => html`<option key=${id} value=${id} selected=${id === now}>${text}</option>`)}
    </select></label>`;
  return html`<p class="tools">
    ${select("x axis", "x", axis, axes.map((each) => [each, AXES[each]]))}
    ${select("y axis", "scale", scale, [["linear", "linear"], ["log", "log"], ["symlog", "symlog"]])}
    ${select("range", "range", value("range", "all"), [["all", "all values"], ["robust", "1st to 99th percentile"]])}
    ${select("smoothing", "smooth", value("smooth", "0"), [["0", "none"], ["0.6", "light"], ["0.9", "medium"], ["0.98", "strong"]])}
    ${(from !== null || to !== null) && html`<button onClick=${() => change({ from: null, to: null })}>
      All steps</button><span class="muted">steps ${number(from ?? 0)} to ${to === null ? "the last" : number(to)}</span>`}
  </p>`;
}

function Choice({ names, chosen, toggle }) {
  const query = value("query");
  const kinds = Object.keys(names.statistics);
  const kind = kinds.includes(value("kind")) ? value("kind") : kinds[0];
  const statistics = names.statistics[kind] ?? [];
  const statistic = statistics.includes(value("statistic")) ? value("statistic")
    : statistics.includes("l2") ? "l2" : statistics[0];
  const matching = filtered([...names.scalars].sort(byUse), query);
  const tensors = filtered((names.tensors[kind] ?? []), query);
  const prefix = `train/${kind}.${statistic}/`;
  const pick = (label, name, now, choices) => html`<label>${label} <select value=${now}
    onChange=${(event) => change({ [name]: event.target.value })}>${choices.map((each) =>
      html`<option key=${each} value=${each} selected=${each === now}>${each.replaceAll("_", " ")}</option>`)}
    </select></label>`;
  return html`<p class="tools"><label>Search <input data-search type="search" value=${query}
      placeholder="loss, blocks.*.attn" onInput=${(event) => change({ query: event.target.value })} /></label></p>
    <h2 class="small">Scalars <small>${matching.length}</small></h2>
    <${TickList} names=${matching} ticked=${chosen} toggle=${toggle} label="Scalars" shown=${shortCurve} />
    ${kind && html`<h2 class="small">Tensors <small>${number(tensors.length)}</small></h2>
      <p class="tools">${pick("of", "kind", kind, kinds)} ${pick("statistic", "statistic", statistic, statistics)}</p>
      <${TickList} names=${tensors} label="Tensors"
        ticked=${chosen.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length))}
        toggle=${(name) => toggle(prefix + name)} />`}
    ${!kind && html`<p class="muted">No statistics of tensors were captured.</p>`}`;
}

/** Names that a search matches: words, with * for anything. */
export function filtered(names, query) {
  if (!query) return names;
  const words = query.toLowerCase().split(/\s+/).filter(Boolean).map((word) => word.split("*"));
  return names.filter((name) => words.every((parts) => inOrder(name.toLowerCase(), parts)));
}

/** Whether parts follow one another in a text: no search of an address takes long. */
function inOrder(text, parts) {
  let at = 0;
  for (const part of parts) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return true;
}

/** Losses first, mothtrap's own measures last. */
function byUse(one, other) {
  const rank = (name) => (/\/loss\b/.test(name) ? 0 : PLUMBING.test(name) ? 2 : 1);
  return rank(one) - rank(other) || one.localeCompare(other);
}
