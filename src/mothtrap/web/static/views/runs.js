/** Runs: the list of runs with their states, and one scalar of the selected runs. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { cividis, isDark, seriesColor } from "../charts/colors.js";
import { LineChart } from "../charts/line.js";
import { source, ticks } from "../data.js";
import { counted, duration, moment, number } from "../format.js";
import { html } from "../html.js";
import { Empty, Notice } from "../parts/notice.js";
import { Status } from "../parts/status.js";
import { useAnswer } from "../parts/use.js";
import { change, href, value, values } from "../state.js";

const MOST = 200;

export function Runs() {
  const query = value("query");
  const begin = Number(value("begin", "0")) || 0;
  const answer = usePage(begin, query);
  const page = answer.value?.page;
  const ticked = values("tick");
  return html`<h1>Runs ${page && html`<small>${page.folder}</small>`}</h1>
    <p class="tools"><label>Filter <input data-search type="search" value=${query}
        placeholder="words, or lr > 1e-3 and GRD101" size="32" onInput=${(event) => change({ query: event.target.value, begin: null })} />
      </label>
      <span role="status" class="muted">${page ? `${counted(page.matching, "run")}${
        page.matching < page.total ? ` of ${number(page.total)}` : ""}${
        page.pending ? `, ${number(page.pending)} not read yet` : ""}` : ""}</span>
      ${page && page.matching > 0 && html`<a href=${source.csvUrl(query)} download="runs.csv">CSV</a>`}</p>
    <${Notice} found=${answer} what="the runs" />
    ${ticked.length > 0 && html`<${Compared} names=${ticked.slice(0, MOST)} />`}
    ${page && !page.total && html`<${Empty}>There are no runs in ${page.folder}. Start one:
      ${" "}<code>mothtrap run train.py</code></${Empty}>`}
    ${page && page.total > 0 && !page.matching && html`<${Empty}>No run matches.</${Empty}>`}
    ${page && page.rows.length > 0 && html`<${Table} rows=${page.rows} ticked=${ticked} />
      <${Pages} page=${page} />
      ${page.matching > 1 && html`<${Options} query=${query} />`}`}`;
}

/** Associations between parameters and findings, loaded when the section is opened. */
function Options({ query }) {
  const [open, setOpen] = useState(false);
  const answer = useAnswer((signal) => (open ? source.associations(query, signal) : null), `${open} ${query}`,
    ticks.runs.value);
  const rows = answer.value ?? [];
  return html`<details onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>Parameters associated with findings</summary>
    ${open && html`<${Notice} found=${answer} what="the parameters" />`}
    ${answer.value && !rows.length && html`<p class="muted">Nothing to compare: all runs have the same parameters, or there are no
      errors and warnings.</p>`}
    ${rows.length > 0 && html`<table class="list"><thead><tr><th scope="col">Parameter</th><th scope="col">Value</th>
      <th scope="col">Finding</th><th scope="col">With it</th><th scope="col">Other runs</th>
      <th scope="col" class="number" title="Probability of this result if the finding did not depend on the parameter (Fisher's exact test)">p</th>
      </tr></thead><tbody>${rows.map((row) => html`<tr key=${`${row.option} ${row.value} ${row.code}`}>
        <td>${row.option}</td><td>${row.value}</td><td>${row.code} ${row.name}</td>
        <td>${row.found} of ${row.runs}</td><td>${row.found_elsewhere} of ${row.runs_elsewhere}</td>
        <td class="number">${row.p.toPrecision(2)}</td></tr>`)}</tbody></table>`}</details>`;
}

/** A page of runs; what the server had no time to read is asked for again. */
function usePage(begin, query) {
  const [round, setRound] = useState(0);
  const answer = useAnswer((signal) => source.runs(begin, query, signal), `${begin} ${query}`,
    `${ticks.runs.value} ${round}`);
  useEffect(() => {
    if (answer.value?.page.pending) setRound((before) => before + 1);
  }, [answer.value]);
  return answer;
}

function Table({ rows, ticked }) {
  const toggle = (name) => change({
    tick: ticked.includes(name) ? ticked.filter((each) => each !== name) : [...ticked, name].slice(-MOST) });
  const all = rows.every((row) => ticked.includes(row.name));
  const names = rows.map((row) => row.name);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Table of runs"><table class="list">
    <thead><tr>
      <th scope="col"><input type="checkbox" checked=${all} aria-label="Tick all of this page"
        onChange=${() => change({ tick: all ? ticked.filter((each) => !names.includes(each))
          : [...new Set([...ticked, ...names])].slice(-MOST) })} /></th>
      <th scope="col">State</th><th scope="col">Run</th><th scope="col">Verdict</th>
      <th scope="col" class="number">Steps</th><th scope="col">Started</th><th scope="col">Last step</th>
      <th scope="col">Script</th><th scope="col">Commit</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.name}>
      <td><input type="checkbox" checked=${ticked.includes(row.name)} aria-label="Plot ${row.name}"
        onChange=${() => toggle(row.name)} /></td>
      <td><${Status} of=${row.pending ? "pending" : row.state} word=${row.state === "running" ? "" : row.ending} /></td>
      <th scope="row"><a href=${href("overview", { run: row.name })}>${row.name}</a>${
        row.kind && row.kind !== "train" ? html` <span class="tag">${row.kind}</span>` : ""}${
        row.tags.map((tag) => html` <span class="tag" key=${tag}>${tag}</span>`)}</th>
      <td class="told" title=${row.verdict}><div>${row.problem ? row.problem : html`<${Status} of=${signOf(row)} quiet /> ${row.verdict}`}</div></td>
      <td class="number">${row.kind === "probe" || row.kind === "serve" ? row.size : number(row.steps)}</td>
      <td>${moment(row.started_s)}</td>
      <td>${row.active_s ? `${duration(Date.now() / 1000 - row.active_s)} ago` : ""}</td>
      <td>${row.script}</td><td><code>${row.commit}</code></td></tr>`)}</tbody></table></div>`;
}

/** The sign of a verdict: a run that crashed is not well, whatever was found in it. */
function signOf(row) {
  if (row.pending) return "pending";
  if (row.severity) return row.severity;
  if (row.state === "crashed") return "crashed";
  const measured = row.steps || row.kind === "probe" || row.kind === "serve";
  return measured && row.evaluated ? "ok" : "not_enough_data";
}

function Pages({ page }) {
  const size = 200;
  if (page.matching <= size) return null;
  return html`<p class="tools">
    <button disabled=${page.begin === 0} onClick=${() => change({ begin: Math.max(0, page.begin - size) })}>
      Newer</button>
    <span>${number(page.begin + 1)} to ${number(page.begin + page.rows.length)} of ${number(page.matching)}</span>
    <button disabled=${page.begin + size >= page.matching} onClick=${() => change({ begin: page.begin + size })}>
      Older</button></p>`;
}

function Compared({ names }) {
  const scalar = value("scalar", "train/loss");
  const scale = value("scale", "linear");
  const answer = useAnswer((signal) => source.compare(names, scalar, names.length > 20 ? 300 : 800, signal),
    `${scalar} ${names.join(" ")}`, ticks.runs.value);
  const curves = useMemo(() => (answer.value?.curves ?? []).filter((curve) => curve.count), [answer.value]);
  const parameters = [...new Set(curves.flatMap((curve) => Object.keys(curve.parameters)))].sort();
  const by = parameters.includes(value("color")) ? value("color") : "";
  const scheme = useMemo(() => colorsBy(curves, by), [curves, by]);
  const lacking = (answer.value?.curves ?? []).length - curves.length;
  return html`<section class="compared" aria-label="Selected runs">
    <p class="tools"><label>Scalar <input value=${scalar} list="scalars"
        onChange=${(event) => change({ scalar: event.target.value })} /></label>
      <datalist id="scalars"><option value="train/loss" /><option value="eval/loss" /><option value="train/lr" />
        <option value="train/step_s" /></datalist>
      <label>y <select value=${scale} onChange=${(event) => change({ scale: event.target.value })}>
        ${["linear", "log", "symlog"].map((each) => html`<option key=${each} selected=${each === scale}>${each}</option>`)}
      </select></label>
      ${parameters.length > 0 && html`<label>color by <select value=${by}
          onChange=${(event) => change({ color: event.target.value })}>
        <option value="" selected=${!by}>run</option>
        ${parameters.map((each) => html`<option key=${each} selected=${each === by}>${each}</option>`)}</select></label>`}
      <button onClick=${() => change({ tick: null })}>Clear selection</button>
      ${names.length > 1 && html`<a class="button" href=${href("compare", { run: names[0],
        with: names.slice(1, 5) })}>Compare selected</a>`}</p>
    <${Notice} found=${answer} what="the curves" />
    ${curves.length > 0 && html`<${LineChart} curves=${curves} colors=${scheme.colors} scale=${scale}
      title=${`${scalar} of ${counted(curves.length, "run")}`} height=${320} legend=${curves.length <= 12} />`}
    ${by && html`<ul class="legend">${scheme.key.map(([text, color]) => html`<li key=${text}>
      <i style=${{ background: color }}></i>${by} ${text}</li>`)}</ul>`}
    ${lacking > 0 && html`<p class="muted">${counted(lacking, "run")} without ${scalar}.</p>`}
  </section>`;
}

const KEYS = 8;

/** A color for each curve, by a parameter of its run: numbers get a scale, words get hues.
 * @param {any[]} curves @param {string} by */
export function colorsBy(curves, by) {
  if (!by) return { colors: curves.map((_, place) => seriesColor(place)), key: [] };
  const of = (curve) => curve.parameters[by] ?? "not set";
  const texts = [...new Set(curves.map(of))].sort((a, b) => Number(a) - Number(b) || a.localeCompare(b));
  const numbers = texts.filter((text) => text !== "" && Number.isFinite(Number(text)));
  const known = new Map(texts.map((text, place) => [text, seriesColor(place)]));
  if (numbers.length > 1) {
    numbers.forEach((text, place) => {
      const share = place / (numbers.length - 1);
      known.set(text, cividis(isDark() ? 0.25 + 0.75 * share : 0.85 * share));
    });
  }
  const every = Math.max(1, (texts.length - 1) / (KEYS - 1));
  const shown = texts.length <= KEYS ? texts
    : Array.from({ length: KEYS }, (_, place) => texts[Math.round(place * every)]);
  return { colors: curves.map((curve) => known.get(of(curve))),
    key: shown.map((text) => [text, known.get(text)]) };
}
