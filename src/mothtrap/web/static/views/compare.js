/** Compare: where do runs diverge? Up to five runs, each compared with the first. */
import { useState } from "preact/hooks";
import { unpackedCells } from "../charts/cells.js";
import { Heat } from "../charts/heat.js";
import { LineChart } from "../charts/line.js";
import { runColor } from "../charts/colors.js";
import { runAnswer, source } from "../data.js";
import { counted, number, words } from "../format.js";
import { html } from "../html.js";
import { Legend } from "../parts/legend.js";
import { TickList } from "../parts/list.js";
import { Empty, Notice } from "../parts/notice.js";
import { Pick } from "../parts/pick.js";
import { Status } from "../parts/status.js";
import { useAnswer, useKept } from "../parts/use.js";
import { useZoom, whole } from "../parts/zoom.js";
import { change, href, run, value, values } from "../state.js";
import { preferred } from "./choice.js";
import { filtered } from "./curves.js";

const MOST = 5;

export function Compare() {
  const others = values("with").filter((name) => name !== run.value).slice(0, MOST - 1);
  const runs = [run.value, ...others];
  const answer = useAnswer((signal) => (others.length ? source.json("diff", runs, {}, signal) : null),
    JSON.stringify(runs));
  return html`<h1 class="hidden">Compare</h1>
    <div class="split curves"><aside aria-label="Choice of runs"><${Choice} others=${others} /></aside>
    <div class="tensor">
      ${!others.length && html`<${Empty}>Select a run on the left to compare with ${run.value}.</${Empty}>`}
      ${others.length > 0 && html`<${Notice} found=${answer} what="the runs" />`}
      ${answer.value && html`<${First} found=${answer.value} />
        <${Conditions} found=${answer.value} /><${Metrics} found=${answer.value} />
        <${Code} found=${answer.value} /><${Only} found=${answer.value} />`}
      ${others.length > 0 && html`<${Overlaid} runs=${runs} />
        <${Ratio} runs=${runs} key=${runs.join("\n")} />`}
    </div></div>`;
}

function Choice({ others }) {
  const query = value("query");
  const answer = useAnswer((signal) => source.runs(0, "", signal), "runs");
  const names = (answer.value?.page.rows ?? []).map((row) => row.name).filter((name) => name !== run.value);
  const toggle = (name) => change({ with: others.includes(name)
    ? others.filter((each) => each !== name) : [...others, name].slice(0, MOST - 1) }, false);
  return html`<p><b>${run.value}</b> compared with up to four other runs</p>
    <p class="tools"><label>Search <input data-search type="search" value=${query}
      onInput=${(event) => change({ query: event.target.value })} /></label></p>
    <${Notice} found=${answer} what="the runs" />
    ${answer.value && html`<${TickList} names=${filtered(names, query)} ticked=${others} toggle=${toggle} label="Runs" />`}`;
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
      <p class="actions"><a class="button" href=${href("layers", { run: run.value, at: each.departure.step })}>Show the step in Layers</a>
        <a class="button" href=${href("samples", { run: run.value, at: each.departure.step })}>Samples of the step</a></p>`}
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
      : html`<div class="scroll short" tabindex="0" role="region" aria-label="Conditions that differ"><table class="conditions">
        <thead><tr><td></td>${found.runs.map((name) => html`<th scope="col" key=${name}>${name}</th>`)}</tr></thead>
        <tbody>${rows.map(([what, by]) => html`<tr key=${what}><th scope="row">${what}</th>${found.runs.map((name) =>
          html`<td key=${name}>${by[name] ?? "same as the first"}</td>`)}</tr>`)}</tbody></table></div>`}</section>`;
}

/** Last values of losses and metrics. */
function Metrics({ found }) {
  const names = Object.keys(found.metrics);
  if (!names.length) return null;
  const text = (value) => (value === undefined ? "–" : value === null ? "NaN" : number(Number(value)));
  return html`<section><h2>Last metrics</h2><div class="scroll short" tabindex="0" role="region" aria-label="Last metrics of the runs"><table>
    <thead><tr><td></td>${found.runs.map((name) => html`<th scope="col" class="number" key=${name}>${name}</th>`)}</tr></thead>
    <tbody>${names.map((metric) => html`<tr key=${metric}><th scope="row">${metric}</th>${found.runs.map((name) =>
      html`<td class="number" key=${name}>${text(found.metrics[metric][name])}</td>`)}</tr>`)}</tbody></table></div></section>`;
}

const CHANGES = { "+": "added", "-": "removed", "@": "muted" };

/** Lines of the script that differ from the script of the first run. */
function Code({ found }) {
  return html`<section><h2>Code</h2>${found.code.map((files, place) => {
    const other = found.runs[place + 1];
    if (files === null) return html`<${Empty} key=${other}>${other}: the script of one of the two runs is not stored.</${Empty}>`;
    if (!files.length) return html`<${Empty} key=${other}>${other}: the same code.</${Empty}>`;
    return files.map((each) => html`<h3 key=${`${other} ${each.file}`}>${each.file} <small>${found.runs[0]} → ${other}</small></h3>
      <div class="scroll short" tabindex="0" role="region" aria-label=${`Changes of ${each.file} in ${other}`}><pre class="source diff"><code>${
        each.lines.map((line, at) => html`<span key=${at} class=${CHANGES[line[0]] ?? ""}>${line}${"\n"}</span>`)}</code></pre></div>
      ${each.more > 0 && html`<p class="muted">… and ${counted(each.more, "more line")}.</p>`}`);
  })}</section>`;
}

/** Findings that not all runs have. */
function Only({ found }) {
  return html`<section><h2>Findings that differ</h2>
    ${!found.findings.length ? html`<${Empty}>${found.shared ? `All runs have the same ${counted(found.shared, "finding")}.`
      : "None of the runs has a finding."}</${Empty}>`
      : html`<div class="scroll short" tabindex="0" role="region" aria-label="Findings that differ between runs"><table>
        <thead><tr><th scope="col">Finding</th>${found.runs.map((name) => html`<th scope="col" key=${name}>${name}</th>`)}</tr></thead>
        <tbody>${found.findings.map((each) => html`<tr key=${`${each.code} ${each.layers}`}><th scope="row">
          <${Status} of=${each.severity} quiet /> ${words(each.name)} <small>${each.code} ${each.layers[0] ?? ""}</small></th>
          ${found.runs.map((name) => html`<td key=${name}>${name in each.steps ? html`<a href=${href("findings",
            { run: name, finding: each.fingerprints[name] })}>step ${number(each.steps[name])}</a>` : "–"}</td>`)}</tr>`)}</tbody></table></div>`}
    </section>`;
}

/** A scalar of all runs on one chart. */
function Overlaid({ runs }) {
  const names = useAnswer((signal) => source.names(run.value, signal), run.value);
  const scalars = [...new Set((names.value?.scalars ?? []).map((name) => name.split(":")[0]))];
  const scalar = scalars.includes(value("name")) ? value("name") : scalars.find((each) => each.endsWith("/loss")) ?? scalars[0];
  const answer = useAnswer((signal) => (scalar ? source.compare(runs, scalar, 1000, signal) : null), JSON.stringify([runs, scalar]));
  const curves = answer.value?.curves.filter((curve) => curve.count) ?? [];
  const colors = curves.map((curve) => runColor(curve.name, runs));
  if (!scalars.length) return null;
  return html`<section><h2>Curves</h2><p class="tools"><${Pick} label="scalar" name="name" now=${scalar}
      choices=${scalars.map((each) => [each, each])} />
      <${Pick} label="y axis" name="scale" now=${value("scale", "linear")}
        choices=${["linear", "log", "symlog"].map((each) => [each, each])} /></p>
    <${Notice} found=${answer} what="the curves" />
    ${curves.length > 0 && html`<${LineChart} curves=${curves} colors=${colors} title=${`${scalar} of ${counted(runs.length, "run")}`}
      height=${240} scale=${value("scale", "linear")} at=${whole(value("at"))} onAt=${(step) => change({ at: step })} />`}</section>`;
}

/** Ratio of a statistic in the first run to the same statistic in another, for each common tensor. */
function Ratio({ runs }) {
  const names = useAnswer((signal) => source.names(run.value, signal), run.value);
  const [sight, setSight] = useState({ first: 0, count: 30 });
  const [hover, setHover] = useState(null);
  const kinds = Object.keys(names.value?.statistics ?? {});
  const kind = kinds.includes(value("kind")) ? value("kind") : preferred(kinds);
  const stats = names.value?.statistics[kind] ?? [];
  const stat = stats.includes(value("stat")) ? value("stat") : stats.includes("l2") ? "l2" : stats[0];
  const other = runs.includes(value("over")) && value("over") !== run.value ? value("over") : runs[1];
  const [from, to] = [whole(value("from")), whole(value("to"))];
  const wish = { kind, stat, from, to, px: 800, open: values("open"), shut: values("shut") };
  const begin = Math.floor(sight.first / 200) * 200;
  const pair = [run.value, other];
  const answer = useAnswer((signal) => (stat ? source.bytes("ratio", pair, { ...wish, first: begin }, signal).then(unpackedCells) : null),
    JSON.stringify([pair, wish, begin]));
  const cells = useKept(answer.value, JSON.stringify([pair, kind, stat]));
  useZoom(from, to, runAnswer.value.value?.steps ?? 0);
  if (!stat) return null;
  const rowOf = (place) => cells?.rows[place - cells.first];
  const path = value("row");
  const here = cells ? cells.rows.findIndex((each) => each.path === path) + cells.first : -1;
  const toggle = (row) => {
    const [into, out] = row.open ? ["shut", "open"] : ["open", "shut"];
    change({ [into]: [...values(into).filter((each) => each !== row.path), row.path],
      [out]: values(out).filter((each) => each !== row.path) });
  };
  const set = (place, step) => change({ row: rowOf(place)?.path, at: step });
  const at = hover ?? (path ? { row: path, at: whole(value("at")) ?? 0 } : null);
  return html`<section><h2>Ratio of ${stat.replaceAll("_", " ")}: ${run.value} / ${other}</h2>
    <p class="tools"><${Pick} label="of" name="kind" now=${kind} choices=${kinds.map((each) => [each, each.replaceAll("_", " ")])} />
      <${Pick} label="statistic" name="stat" now=${stat} choices=${stats.map((each) => [each, each.replaceAll("_", " ")])} />
      ${runs.length > 2 && html`<${Pick} label="over" name="over" now=${other} choices=${runs.slice(1).map((each) => [each, each])} />`}
      ${(from !== null || to !== null) && html`<button onClick=${() => change({ from: null, to: null })}>All steps</button>`}</p>
    <${Notice} found=${{ ...answer, value: cells }} what="the statistics" />
    ${cells && !cells.total && html`<${Empty}>The runs have no tensor of this kind in common.</${Empty}>`}
    ${cells && cells.total > 0 && html`<${Heat} cells=${cells} rowHeight=${18} ratio at=${at?.at ?? null} here=${here} maxHeight=${420}
        sentence=${`Ratio of ${stat} of ${number(cells.tensors)} ${kind}s, ${run.value} over ${other}, steps ${number(cells.begin)} to ${
          number(cells.begin + cells.columns * cells.width - 1)}, from ${number(cells.low)} to ${number(cells.high)}. Arrow keys move the cursor.`}
        onMove=${set} onPick=${set} onZoom=${(first, end) => change({ from: first, to: end }, false)}
        onHover=${(place, step) => setHover(rowOf(place) ? { row: rowOf(place).path, at: step } : null)}
        onSight=${(first, count) => setSight({ first, count })}
        keys=${(event) => { const row = rowOf(here); if (event.key !== " " || !row || row.open === null) return false; toggle(row); return true; }}
        label=${(place) => html`<${Name} row=${rowOf(place)} toggle=${toggle} />`} />
      <${Legend} low=${cells.low} high=${cells.high} ratio of="ratio" zero=${false} middle="1 = equal" />
      <${Numbers} pair=${pair} wish=${wish} at=${at} />`}</section>`;
}

function Name({ row, toggle }) {
  if (!row) return "…";
  const style = { paddingLeft: `${0.3 + row.depth * 0.9}rem` };
  if (row.open === null) return html`<span class="row-name" style=${style} title=${row.path}>${row.label}</span>`;
  return html`<button tabindex="-1" class="row-name" style=${style} title=${row.path} aria-expanded=${row.open}
    onClick=${() => toggle(row)}><span aria-hidden="true">${row.open ? "▾" : "▸"}</span> ${row.label} <small>${number(row.count)}</small></button>`;
}

/** The numbers of both runs at the cursor. */
function Numbers({ pair, wish, at }) {
  const asked = (name) => useAnswer((signal) => (at ? source.json("cell", name, { ...wish, ...at }, signal) : null),
    JSON.stringify([name, wish, at]));
  const [one, other] = [asked(pair[0]), asked(pair[1])];
  if (!at) return html`<p class="muted">Hover over a cell to see the values of both runs.</p>`;
  const shown = (cell) => (!cell ? "…" : cell.bad ? "not finite" : cell.value === null ? "not captured" : number(cell.value));
  return html`<p role="status">${at.row} at step ${number(at.at)}: <b>${shown(one.value)}</b> in ${pair[0]}, ${" "}
    <b>${shown(other.value)}</b> in ${pair[1]}</p>`;
}
