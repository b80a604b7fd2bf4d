/** Compare: where do runs diverge? Up to five runs, each compared with the first. */
import { useState } from "preact/hooks";
import { unpackedCells } from "../charts/cells.js";
import { Heat } from "../charts/heat.js";
import { LineChart } from "../charts/line.js";
import { runColor } from "../charts/colors.js";
import { source } from "../data.js";
import { counted, number, words } from "../format.js";
import { html } from "../html.js";
import { Empty, heads, Notice, Scroll, toggled, useAnswer, useJson, useKept, useNames } from "../parts/basics.js";
import { AllSteps, Pick, picked, Search, useZoom, USUAL_KINDS, whole } from "../parts/choices.js";
import { Legend } from "../parts/legend.js";
import { TickList } from "../parts/list.js";
import { Status } from "../parts/status.js";
import { change, href, inRun, run, value, values } from "../state.js";
import { filtered } from "./curves.js";
import { Name, toggle } from "./layers.js";

const MOST = 5;

/** The run, and those that the address asks to compare with it. */
export const comparedRuns = () => [run.value, ...values("with").filter((name) => name !== run.value).slice(0, MOST - 1)];

export function Compare() {
  const runs = comparedRuns();
  const others = runs.slice(1);
  const answer = useJson("diff", others.length ? {} : null, 0, runs);
  return html`<h1 class="hidden">Compare</h1>
    <div class="split curves"><aside aria-label="Choice of runs"><${Choice} others=${others} /></aside>
    <div class="tensor">
      ${!others.length && html`<${Empty}>Select a run on the left to compare with ${run.value}.</${Empty}>`}
      ${others.length > 0 && html`<p><a class="button" href=${inRun("histograms", { with: others })}>Histograms side by side</a></p>
        <${Notice} found=${answer} what="the runs" />`}
      ${answer.value && html`<${First} found=${answer.value} />
        <${Conditions} found=${answer.value} /><${Metrics} found=${answer.value} />
        <${Code} found=${answer.value} /><${Only} found=${answer.value} />`}
      ${others.length > 0 && html`<${Overlaid} runs=${runs} />
        <${Ratio} runs=${runs} key=${runs.join("\n")} />`}
    </div></div>`;
}

/** @param {{others: string[], search?: string}} props `search`: its name in the address */
export function Choice({ others, search = "query" }) {
  const answer = useAnswer((signal) => source.runs(0, "", signal), "runs");
  const names = (answer.value?.page.rows ?? []).map((row) => row.name).filter((name) => name !== run.value);
  const toggle = (name) => change({ with: toggled(others, name).slice(0, MOST - 1) }, false);
  return html`<p><b>${run.value}</b> compared with up to four other runs</p>
    <p class="tools"><${Search} name=${search} hint="" /></p>
    <${Notice} found=${answer} what="the runs" />
    ${answer.value && html`<${TickList} names=${filtered(names, value(search))} ticked=${others} toggle=${toggle} label="Runs" />`}`;
}

/** The first difference from each other run. */
function First({ found }) {
  return found.differences.map((each, place) => html`<section key=${place} class="verdict ${each.same ? "ok" : "warning"}"
      aria-label="First divergence of ${found.runs[place + 1]}">
    <h2>${found.runs[place + 1]}: ${each.same ? (each.compared.length ? "no differences"
      : "no comparable data in common") : sinceWhen(each.departure)}</h2>
    ${each.departure && html`<p><b>${each.departure.what}</b> (${each.departure.phase}): ${each.departure.first || "nothing"} in the first run,
      ${" "}${each.departure.second || "nothing"} in the other${each.departure.count > 1
        ? `; ${number(each.departure.count)} of ${number(each.departure.of)} differ` : ""}.</p>
      <p class="actions"><a class="button" href=${inRun("layers", { at: each.departure.step })}>Show the step in Layers</a>
        <a class="button" href=${inRun("samples", { at: each.departure.step })}>Samples of the step</a></p>`}
    ${each.cause && html`<p class="try"><b>Likely cause</b> ${each.cause.sentence}</p>`}
    ${each.cause?.evidence.map((said) => html`<p class="muted" key=${said}>${said}</p>`)}
    <p class="muted">${counted(each.steps, "step")} compared${each.exact ? ", bit for bit" : ` within rtol ${number(each.rtol)}, atol ${number(each.atol)}`}:
      ${" "}${each.compared.map((phase) => `${phase.phase} by ${phase.method}`).join(", ")}.</p>
    ${each.notes.map((note) => html`<p class="muted" key=${note}>${note}</p>`)}</section>`);
}

const sinceWhen = (first) => (first.since === null ? `diverges at step ${number(first.step)}`
  : `diverges between steps ${number(first.since)} and ${number(first.step)}`);

/** Differences in configuration and conditions. */
function Conditions({ found }) {
  const options = Object.entries(found.parameters);
  const conditions = new Map();
  found.differences.forEach((each, place) => each.conditions.forEach((condition) => {
    if (condition.what.replace("parameters: ", "") in found.parameters) return;
    const row = conditions.get(condition.what) ?? { [found.runs[0]]: condition.first };
    conditions.set(condition.what, { ...row, [found.runs[place + 1]]: condition.second });
  }));
  const rows = [...options, ...conditions];
  return html`<section><h2>Configuration and conditions</h2>
    ${!rows.length ? html`<${Empty}>The runs have the same configuration and conditions.</${Empty}>`
      : html`<${ByRun} label="Conditions that differ" runs=${found.runs}
        rows=${rows.map(([what, by]) => [what, (name) => by[name] ?? "same as the first"])} />`}</section>`;
}

/** A table with a column for each run. @param {{label: string, runs: string[], title?: string, of?: string,
 *   rows: [unknown, (run: string) => unknown][]}} props `of`: class of the cells */
function ByRun({ label, runs, rows, title, of }) {
  return html`<${Scroll} also="short" label=${label}><table class="conditions">
    <thead><tr>${title ? heads([title]) : html`<td></td>`}${heads(runs, of)}</tr></thead>
    <tbody>${rows.map(([head, cell], place) => html`<tr key=${place}><th scope="row">${head}</th>${runs.map((name) =>
      html`<td key=${name} class=${of}>${cell(name)}</td>`)}</tr>`)}</tbody></table></${Scroll}>`;
}

/** Last values of losses and metrics. */
function Metrics({ found }) {
  const names = Object.keys(found.metrics);
  if (!names.length) return null;
  const text = (value) => (value === undefined ? "–" : value === null ? "NaN" : number(Number(value)));
  return html`<section><h2>Last metrics</h2><${ByRun} label="Last metrics of the runs" of="number"
    runs=${found.runs} rows=${names.map((metric) => [metric, (name) => text(found.metrics[metric][name])])} /></section>`;
}

const CHANGES = { "+": "added", "-": "removed", "@": "muted" };

/** Lines of the script that differ from the script of the first run. */
function Code({ found }) {
  return html`<section><h2>Code</h2>${found.code.map((files, place) => {
    const other = found.runs[place + 1];
    if (files === null) return html`<${Empty} key=${other}>${other}: the script of one of the two runs is not stored.</${Empty}>`;
    if (!files.length) return html`<${Empty} key=${other}>${other}: the same code.</${Empty}>`;
    return files.map((each) => html`<h3 key=${`${other} ${each.file}`}>${each.file} <small>${found.runs[0]} → ${other}</small></h3>
      <${Scroll} also="short" label=${`Changes of ${each.file} in ${other}`}><pre class="source diff"><code>${
        each.lines.map((line, at) => html`<span key=${at} class=${CHANGES[line[0]] ?? ""}>${line}${"\n"}</span>`)}</code></pre></${Scroll}>
      ${each.more > 0 && html`<p class="muted">… and ${counted(each.more, "more line")}.</p>`}`);
  })}</section>`;
}

/** Findings that not all runs have. */
function Only({ found }) {
  return html`<section><h2>Findings that differ</h2>
    ${!found.findings.length ? html`<${Empty}>${found.shared ? `All runs have the same ${counted(found.shared, "finding")}.`
      : "None of the runs has a finding."}</${Empty}>`
      : html`<${ByRun} label="Findings that differ between runs" title="Finding" runs=${found.runs}
        rows=${found.findings.map((each) => [html`<${Status} of=${each.severity} quiet /> ${words(each.name)} <small>${
          each.code} ${each.layers[0] ?? ""}</small>`, (name) => (name in each.steps ? html`<a href=${href("findings",
          { run: name, finding: each.fingerprints[name] })}>step ${number(each.steps[name])}</a>` : "–")])} />`}
    </section>`;
}

/** A scalar of all runs on one chart. */
function Overlaid({ runs }) {
  const names = useNames();
  const scalars = [...new Set((names.value?.scalars ?? []).map((name) => name.split(":")[0]))];
  const scalar = scalars.includes(value("name")) ? value("name") : scalars.find((each) => each.endsWith("/loss")) ?? scalars[0];
  const answer = useAnswer((signal) => (scalar ? source.compare(runs, scalar, 1000, signal) : null), JSON.stringify([runs, scalar]));
  const curves = answer.value?.curves.filter((curve) => curve.count) ?? [];
  const colors = curves.map((curve) => runColor(curve.name, runs));
  if (!scalars.length) return null;
  return html`<section><h2>Curves</h2><p class="tools"><${Pick} label="scalar" name="name" now=${scalar}
      choices=${scalars.map((each) => [each, each])} />
      <${Pick} label="y axis" name="scale" now=${value("scale", "linear")}
        choices=${["linear", "log", "symlog"]} /></p>
    <${Notice} found=${answer} what="the curves" />
    ${curves.length > 0 && html`<${LineChart} curves=${curves} colors=${colors} title=${`${scalar} of ${counted(runs.length, "run")}`}
      height=${240} scale=${value("scale", "linear")} at=${whole(value("at"))} onAt=${(step) => change({ at: step })} />`}</section>`;
}

/** Ratio of a statistic in the first run to the same statistic in another, for each common tensor. */
function Ratio({ runs }) {
  const names = useNames();
  const [sight, setSight] = useState({ first: 0, count: 30 });
  const [hover, setHover] = useState(null);
  const kinds = Object.keys(names.value?.statistics ?? {});
  const kind = picked("kind", kinds, USUAL_KINDS);
  const stats = names.value?.statistics[kind] ?? [];
  const stat = picked("stat", stats);
  const other = runs.includes(value("over")) && value("over") !== run.value ? value("over") : runs[1];
  const [from, to] = useZoom();
  const wish = { kind, stat, from, to, px: 800, open: values("open"), shut: values("shut") };
  const begin = Math.floor(sight.first / 200) * 200;
  const pair = [run.value, other];
  const answer = useAnswer((signal) => (stat ? source.bytes("ratio", pair, { ...wish, first: begin }, signal).then(unpackedCells) : null),
    JSON.stringify([pair, wish, begin]));
  const cells = useKept(answer.value, JSON.stringify([pair, kind, stat]));
  if (!stat) return null;
  const rowOf = (place) => cells?.rows[place - cells.first];
  const path = value("row");
  const here = cells ? cells.rows.findIndex((each) => each.path === path) + cells.first : -1;
  const set = (place, step) => change({ row: rowOf(place)?.path, at: step });
  const at = hover ?? (path ? { row: path, at: whole(value("at")) ?? 0 } : null);
  return html`<section><h2>Ratio of ${stat.replaceAll("_", " ")}: ${run.value} / ${other}</h2>
    <p class="tools"><${Pick} label="of" name="kind" now=${kind} choices=${kinds} />
      <${Pick} label="statistic" name="stat" now=${stat} choices=${stats} />
      ${runs.length > 2 && html`<${Pick} label="over" name="over" now=${other} choices=${runs.slice(1).map((each) => [each, each])} />`}
      <${AllSteps} /></p>
    <${Notice} found=${{ ...answer, value: cells }} what="the statistics" />
    ${cells && !cells.total && html`<${Empty}>The runs have no tensor of this kind in common.</${Empty}>`}
    ${cells && cells.total > 0 && html`<${Heat} cells=${cells} rowHeight=${18} ratio at=${at?.at ?? null} here=${here} maxHeight=${420}
        sentence=${`Ratio of ${stat} of ${number(cells.tensors)} ${kind}s, ${run.value} over ${other}, steps ${number(cells.begin)} to ${
          number(cells.begin + cells.columns * cells.width - 1)}, from ${number(cells.low)} to ${number(cells.high)}. Arrow keys move the cursor.`}
        onMove=${set} onPick=${set} onZoom=${(first, end) => change({ from: first, to: end }, false)}
        onHover=${(place, step) => setHover(rowOf(place) ? { row: rowOf(place).path, at: step } : null)}
        onSight=${(first, count) => setSight({ first, count })}
        keys=${(event) => { const row = rowOf(here); if (event.key !== " " || !row || row.open === null) return false; toggle(row); return true; }}
        label=${(place) => html`<${Name} row=${rowOf(place)} />`} />
      <${Legend} low=${cells.low} high=${cells.high} ratio of="ratio" zero=${false} middle="1 = equal" />
      <${Numbers} pair=${pair} wish=${wish} at=${at} />`}</section>`;
}

/** The numbers of both runs at the cursor. */
function Numbers({ pair, wish, at }) {
  const [one, other] = pair.map((name) => useJson("cell", at && { ...wish, ...at }, 0, name));
  if (!at) return html`<p class="muted">Hover over a cell to see the values of both runs.</p>`;
  const shown = (cell) => (!cell ? "…" : cell.bad ? "not finite" : cell.value === null ? "not captured" : number(cell.value));
  return html`<p role="status">${at.row} at step ${number(at.at)}: <b>${shown(one.value)}</b> in ${pair[0]}, ${" "}
    <b>${shown(other.value)}</b> in ${pair[1]}</p>`;
}
