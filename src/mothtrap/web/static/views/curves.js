/** Curves: a chart for each unit, over steps, time, epochs or samples. */
import { useEffect, useState } from "preact/hooks";
import { LineChart } from "../charts/line.js";
import { Saves } from "../charts/saving.js";
import { isSpread, nearest } from "../charts/scale.js";
import { problems, runAnswer } from "../data.js";
import { counted, markOf, number, shortCurve } from "../format.js";
import { html } from "../html.js";
import { Empty, Notice, toggled, useNames, useSeries } from "../parts/basics.js";
import { AllSteps, Pick, picked, PickRange, Search, useZoom, whole } from "../parts/choices.js";
import { TickList } from "../parts/list.js";
import { keep, kept } from "../parts/save.js";
import { change, value, values } from "../state.js";
import { CaptureMore } from "./capture.js";
import { RuleOfThis, firingMarks, useTrial } from "./limit.js";

const MOST = 16;
const MOST_USUAL = 24;
const USUAL_MACHINE = /^machine\/(cpu_percent|memory_percent|gpu_percent|gpu_memory_percent)\//;
const PLUMBING = /^\w+\/(own_s|step_s|skipped|micro_batches|gradient_state|stale_gradient|memory_bytes)/;

export function Curves() {
  const names = useNames();
  const about = runAnswer.value.value;
  const asked = values("name").filter(Boolean).slice(0, MOST);
  const chosen = asked.length ? asked : usual(names.value, about?.losses ?? []);
  const [from, to] = useZoom();
  const wish = { from, to, x: value("x", "step") };
  const [first, setFirst] = useState(null);
  const trial = useTrial();
  const pins = usePins();
  const losses = about?.losses ?? [];
  const toggle = (name) => {  // the first choice keeps the loss
    const base = asked.length || losses.includes(name) ? asked : losses;
    change({ name: toggled(base, name).slice(-MOST) });
  };
  const charts = byUnit(chosen, pins.of);
  return html`<h1 class="hidden">Curves</h1>
    <div class="split curves">
      <aside aria-label="Choice of curves">
        ${names.value ? html`<${Choice} names=${names.value} chosen=${asked} toggle=${toggle} />`
          : html`<${Notice} found=${names} what="the names" />`}
        <${CaptureMore} />
      </aside>
      <div>
        <${Tools} axes=${names.value?.axes ?? ["step"]} wish=${wish} asked=${asked} />
        ${about && names.value && !chosen.length && html`<${Empty}>Select curves on the left.</${Empty}>`}
        <div class=${charts.length > 1 ? "charts" : ""}>${charts.map(([unit, members], place) => html`
          <${UnitChart} key=${unit} unit=${unit} names=${members} wish=${wish} trial=${trial} pins=${pins}
            height=${charts.length > 1 ? 220 : 430} onCurves=${place ? null : setFirst} />`)}</div>
        ${chosen.length > 0 && html`<${RuleOfThis} chosen=${chosen} trial=${trial} atValue=${first ? valueAt(first) : null} />`}
      </div>
    </div>`;
}

/** The default choice: training scalars, losses first, then machine metrics. */
function usual(names, losses) {
  if (!names) return losses;
  const scalars = [...names.scalars].sort(byUse).filter((name) => !PLUMBING.test(name));
  return [...scalars, ...names.machine.filter((name) => USUAL_MACHINE.test(name))].slice(0, MOST_USUAL);
}

/** Curves of one unit share a chart; pinned charts come first.
 * @param {string[]} names @param {string[]} pinned units @returns {[string, string[]][]} */
export function byUnit(names, pinned = []) {
  const charts = new Map();
  for (const name of names) {
    const unit = unitOf(name);
    charts.set(unit, [...(charts.get(unit) ?? []), name]);
  }
  const rank = (unit) => (pinned.includes(unit) ? 0 : 1);
  return [...charts].sort(([one], [other]) => rank(one) - rank(other));
}

/** What a curve measures: `loss` of training and evaluation is one unit. @param {string} name */
function unitOf(name) {
  const [mode, what] = name.split("/", 2);
  if (mode === "machine") return what.endsWith("percent") ? "machine, %" : `machine, ${what.replaceAll("_", " ")}`;
  return mode === "fact" ? what : what.split(":")[0].replace(/^(train|eval)\./, "");
}

/** One chart: its curves, its options, and its actions. */
function UnitChart({ unit, names, wish, trial, pins, height, onCurves }) {
  const answer = useSeries({ name: names, ...wish, px: height > 300 ? 1200 : 600 });
  const curves = answer.value?.curves ?? [];
  useEffect(() => { if (curves.length) onCurves?.(curves[0]); }, [answer.value]);
  const scale = scaleOf(value("scale", "auto"), curves);
  const isPinned = pins.of.includes(unit);
  return html`<section class="unit"><h2 class="small">${unit}
      <button class="plain" aria-pressed=${isPinned} aria-label=${`Pin ${unit}`} title="Pinned charts come first, in every run"
        onClick=${() => pins.toggle(unit)}>${isPinned ? "★" : "☆"}</button></h2>
    <${Notice} found=${answer} what="the curves" />
    ${curves.length > 0 && curves.every((curve) => !curve.count) && html`<${Empty}>No value was recorded in these steps.</${Empty}>`}
    ${curves.some((curve) => curve.count) && html`<${LineChart} curves=${curves} gaps=${runAnswer.value.value?.gaps} title=${titleOf(curves)}
      axis=${wish.x} scale=${scale} robust=${value("range") === "robust"} smooth=${Number(value("smooth", "0")) || 0}
      height=${height} marks=${[...marks(wish.from, wish.to), ...firingMarks(trial)]} at=${whole(value("at"))} saves=${Saves}
      limit=${trial.value && value("limit") !== "" && names.includes(value("of")) ? Number(value("limit")) : null}
      onAt=${(step) => change({ at: step })}
      onZoom=${(begin, end) => change({ from: begin, to: end }, false)} />
      ${width(curves) && html`<p class="muted">${width(curves)}</p>`}`}</section>`;
}

/** Automatic: logarithmic if values are positive and span three powers of ten. */
const scaleOf = (asked, curves) => (asked !== "auto" ? asked : isSpread(curves) ? "log" : "linear");

/** Units whose charts come first; the browser keeps them for all runs. */
function usePins() {
  const [of, setOf] = useState(readPins);
  const toggle = (unit) => {
    const next = toggled(of, unit);
    setOf(next);
    keep("pins", JSON.stringify(next));
  };
  return { of, toggle };
}

function readPins() {
  try {
    const found = JSON.parse(kept("pins") ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch { return []; }
}

/** The value of a curve at the cursor. */
function valueAt(curve) {
  const at = whole(value("at"));
  const found = at === null || !curve.count ? NaN : curve.last[nearest(curve.step, at)];
  return Number.isFinite(found) ? found : null;
}

const titleOf = (curves) => (curves.length === 1 ? shortCurve(curves[0].name)
  : counted(curves.length, "curve"));

/** Return whether a point combines several values of a step. */
const hasBatches = ({ name, min, max }) => name.startsWith("eval/") && min.some((low, at) => low < max[at]);

/** The number of steps that a point combines, or the meaning of its band. */
function width(curves) {
  const widest = Math.max(...curves.map((curve) => curve.width));
  return widest > 1 ? `Each point covers ${widest} steps. The line shows the last value, the band the ` +
    "range from lowest to highest. Drag or press w to zoom in."
    : curves.some(hasBatches) ? "Band: lowest to highest batch of an evaluation." : "";
}

function marks(from, to) {
  return problems().filter((each) => each.step >= (from ?? 0) && each.step <= (to ?? Infinity))
    .slice(0, 20).map(markOf);
}

function Tools({ axes, wish, asked }) {
  const smooth = value("smooth", "0");
  return html`<p class="tools">
    <${Pick} label="x axis" name="x" now=${wish.x} choices=${axes} />
    <${Pick} label="y axis" name="scale" now=${value("scale", "auto")} choices=${["auto", "linear", "log", "symlog"]} />
    <${PickRange} now=${value("range", "all")} />
    <label>smoothing <input type="range" min="0" max="0.99" step="0.01" value=${smooth}
      onInput=${(event) => change({ smooth: event.target.value === "0" ? null : event.target.value })} /> ${smooth}</label>
    ${asked.length > 0 && html`<button onClick=${() => change({ name: null })}>All charts</button>`}
    <${AllSteps} />
  </p>`;
}

function Choice({ names, chosen, toggle }) {
  const query = value("query");
  const kinds = Object.keys(names.statistics);
  const kind = picked("kind", kinds, []);
  const statistics = names.statistics[kind] ?? [];
  const statistic = picked("statistic", statistics);
  const matching = filtered([...names.scalars].sort(byUse), query);
  const tensors = filtered((names.tensors[kind] ?? []), query);
  const prefix = `train/${kind}.${statistic}/`;
  return html`<p class="tools"><${Search} hint="loss, blocks.*.attn" /></p>
    <h2 class="small">Scalars <small>${matching.length}</small></h2>
    <${TickList} names=${matching} ticked=${chosen} toggle=${toggle} label="Scalars" shown=${shortCurve} />
    ${names.machine.length > 0 && html`<h2 class="small">Machine <small>${filtered([...names.machine], query).length}</small></h2>
      <${TickList} names=${filtered([...names.machine], query)} ticked=${chosen} toggle=${toggle} label="Machine"
        shown=${(name) => name.replace("machine/", "").replaceAll("_", " ").replace("/", " ")} />`}
    ${kind && html`<h2 class="small">Tensors <small>${number(tensors.length)}</small></h2>
      <p class="tools"><${Pick} label="of" name="kind" now=${kind} choices=${kinds} />
        <${Pick} label="statistic" name="statistic" now=${statistic} choices=${statistics} /></p>
      <${TickList} names=${tensors} label="Tensors"
        ticked=${chosen.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length))}
        toggle=${(name) => toggle(prefix + name)} />`}
    ${!kind && html`<p class="muted">No statistics of tensors were captured.</p>`}`;
}

/** Names that match a search: words, with * for any text. */
export function filtered(names, query) {
  if (!query) return names;
  const words = query.toLowerCase().split(/\s+/).filter(Boolean).map((word) => word.split("*"));
  return names.filter((name) => words.every((parts) => inOrder(name.toLowerCase(), parts)));
}

/** Return whether parts occur in order in a text; a search from an address never takes long. */
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
  const training = (name) => Number(name.startsWith("train/"));  // in the colors of Overview
  return rank(one) - rank(other) || training(other) - training(one) || one.localeCompare(other);
}
