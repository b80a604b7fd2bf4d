/** Runs: the list of runs with their states, and one scalar of the selected runs. */
import { useEffect, useState } from "preact/hooks";
import { source, ticks } from "../data.js";
import { counted, duration, moment, number } from "../format.js";
import { html } from "../html.js";
import { Empty, heads, Notice, Scroll, toggled, useAnswer, useJson, useKept } from "../parts/basics.js";
import { Deep } from "../parts/deep.js";
import { TickList } from "../parts/list.js";
import { Status } from "../parts/status.js";
import { change, href, value, values } from "../state.js";

const MOST = 200;

export function Runs() {
  const query = value("query");
  const begin = Number(value("begin", "0")) || 0;
  const sort = value("sort");
  const answer = usePage(begin, query, sort);
  const page = useKept(answer.value?.page, "runs");  // the last page stays while the next is read
  const columns = chosenColumns(page?.columns ?? []);
  const ticked = values("tick");
  return html`<h1>Runs ${page && html`<small>${page.folder}</small>`}</h1>
    <p class="tools"><label>Filter <input data-search type="search" value=${query}
        placeholder="words, or lr > 1e-3 and GRD101" size="32" onInput=${(event) => change({ query: event.target.value, begin: null })} />
      </label>
      <span role="status" class="muted">${page ? `${counted(page.matching, "run")}${
        page.matching < page.total ? ` of ${number(page.total)}` : ""}${
        page.pending ? `, ${number(page.pending)} not read yet` : ""}` : ""}</span>
      ${page && page.matching > 0 && html`<a href=${source.csvUrl(query)} download="runs.csv">CSV</a>`}</p>
    <${Notice} found=${{ ...answer, value: page }} what="the runs" />
    ${ticked.length > 0 && html`<${Deep} name="selected" props=${{ names: ticked.slice(0, MOST) }} />`}
    ${page && !page.total && html`<${Empty}>There are no runs in ${page.folder}. Start one:
      ${" "}<code>mothtrap run train.py</code></${Empty}>`}
    ${page && page.total > 0 && !page.matching && html`<${Empty}>No run matches.</${Empty}>`}
    ${page && page.rows.length > 0 && html`<${Columns} columns=${page.columns} chosen=${columns} />
      <${Table} rows=${page.rows} ticked=${ticked} columns=${columns} />
      <${Pages} page=${page} />
      ${page.rows.length > 1 && html`<${Coordinates} rows=${page.rows} columns=${columns} />`}
      ${page.matching > 1 && html`<${Options} query=${query} />`}`}`;
}

/** Parallel coordinates of the runs of this page, drawn when the section is opened. */
function Coordinates({ rows, columns }) {
  const [open, setOpen] = useState(false);
  const ordered = [...columns.filter((id) => id.startsWith("param.")), ...columns.filter((id) => !id.startsWith("param."))];
  return html`<details onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>Parallel coordinates</summary>
    ${open && html`<${Deep} name="parallel" props=${{ rows, columns: ordered }} />`}</details>`;
}

/** Associations between parameters and findings, loaded when the section is opened. */
function Options({ query }) {
  const [open, setOpen] = useState(false);
  const answer = useJson("associations", open ? { query } : null, ticks.runs.value, "");
  const rows = answer.value ?? [];
  return html`<details onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>Parameters associated with findings</summary>
    ${open && html`<${Notice} found=${answer} what="the parameters" />`}
    ${answer.value && !rows.length && html`<p class="muted">Nothing to compare: all runs have the same parameters, or there are no
      errors and warnings.</p>`}
    ${rows.length > 0 && html`<table class="list"><thead><tr>${heads(["Parameter", "Value", "Finding", "With it", "Other runs"])}
      <th scope="col" class="number" title="Probability of this result if the finding did not depend on the parameter (Fisher's exact test)">p</th>
      </tr></thead><tbody>${rows.map((row) => html`<tr key=${`${row.option} ${row.value} ${row.code}`}>
        <td>${row.option}</td><td>${row.value}</td><td>${row.code} ${row.name}</td>
        <td>${row.found} of ${row.runs}</td><td>${row.found_elsewhere} of ${row.runs_elsewhere}</td>
        <td class="number">${row.p.toPrecision(2)}</td></tr>`)}</tbody></table>`}</details>`;
}

/** A page of runs; runs that the server had no time to read are requested again. */
function usePage(begin, query, sort) {
  const [round, setRound] = useState(0);
  const answer = useAnswer((signal) => source.runs(begin, query, signal, sort), `${begin} ${sort} ${query}`,
    `${ticks.runs.value} ${round}`);
  useEffect(() => {
    if (answer.value?.page.pending) setRound((before) => before + 1);
  }, [answer.value]);
  return answer;
}

const OWN = { state: "State", run: "Run", verdict: "Verdict", steps: "Steps", started: "Started" };
const SHOWN = 3;

/** The columns in the address, or else some metrics and parameters that differ between runs.
 * @param {{id: string, runs: number, varies: boolean}[]} columns */
function chosenColumns(columns) {
  const asked = values("column");
  if (asked.length) return asked.filter((id) => id !== "none");
  const first = (kind) => columns.filter((each) => each.varies && each.id.startsWith(kind)).slice(0, SHOWN)
    .map((each) => each.id);
  return [...first("metric."), ...first("param.")];
}

const shortName = (id) => id.slice(id.indexOf(".") + 1);

/** The value of a parameter or metric of a run. */
function cellOf(row, id) {
  const found = (id.startsWith("metric.") ? row.metrics : row.parameters)[shortName(id)];
  if (found === undefined || found === null) return "";
  return typeof found === "number" ? number(found) : String(found);
}

/** A heading that sorts by its column, then in reverse. */
function Sorted({ id, title, of = "" }) {
  const now = value("sort");
  const order = now === id ? "ascending" : now === `-${id}` ? "descending" : undefined;
  const next = order === "ascending" ? `-${id}` : order === "descending" ? null : id;
  const sign = { ascending: "▲", descending: "▼" }[order];
  return html`<th scope="col" aria-sort=${order} class=${of}><button class="plain sort" title="Sort by ${title}"
    onClick=${() => change({ sort: next, begin: null })}>${title}${sign && html` <span aria-hidden="true">${sign}</span>`}</button></th>`;
}

/** Which columns the table has. */
function Columns({ columns, chosen }) {
  const names = columns.map((each) => each.id);
  const toggle = (id) => {
    const next = toggled(chosen, id);
    change({ column: next.length ? next : ["none"] });
  };
  if (!names.length) return null;
  return html`<details class="fold"><summary>Columns <small>${chosen.length} of ${names.length}</small></summary>
    <${TickList} names=${names} ticked=${chosen} toggle=${toggle} label="Columns"
      shown=${(id) => id.replace("param.", "parameter ").replace("metric.", "metric ")} /></details>`;
}

function Table({ rows, ticked, columns }) {
  const toggle = (name) => change({ tick: toggled(ticked, name).slice(-MOST) });
  const all = rows.every((row) => ticked.includes(row.name));
  const names = rows.map((row) => row.name);
  return html`<${Scroll} label="Table of runs"><table class="list runs-table">
    <thead><tr>
      <th scope="col"><input type="checkbox" checked=${all} aria-label="Select all on this page"
        onChange=${() => change({ tick: all ? ticked.filter((each) => !names.includes(each))
          : [...new Set([...ticked, ...names])].slice(-MOST) })} /></th>
      ${Object.entries(OWN).map(([id, title]) => html`<${Sorted} key=${id} id=${id} title=${title}
        of=${id === "steps" ? "number" : ""} />`)}
      ${columns.map((id) => html`<${Sorted} key=${id} id=${id} title=${shortName(id)} of="number" />`)}
      <th scope="col">Last step</th><${Sorted} id="script" title="Script" /><th scope="col">Commit</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.name}>
      <td><input type="checkbox" checked=${ticked.includes(row.name)} aria-label="Plot ${row.name}"
        onChange=${() => toggle(row.name)} /></td>
      <td><${Status} of=${row.pending ? "pending" : row.state} word=${row.state === "running" ? "" : row.ending} /></td>
      <th scope="row"><a href=${href("overview", { run: row.name })}>${row.name}</a>${
        row.kind && row.kind !== "train" ? html` <span class="tag">${row.kind}</span>` : ""}${
        row.group ? html` <span class="tag">${row.group}</span>` : ""}${
        row.tags.map((tag) => html` <span class="tag" key=${tag}>${tag}</span>`)}</th>
      <td class="told" title=${row.verdict}><div>${row.problem ? row.problem : html`<${Status} of=${signOf(row)} quiet /> ${row.verdict}`}</div></td>
      <td class="number">${row.kind === "probe" || row.kind === "serve" ? row.size : number(row.steps)}</td>
      <td>${moment(row.started_s)}</td>
      ${columns.map((id) => html`<td key=${id} class="number">${cellOf(row, id)}</td>`)}
      <td>${row.active_s ? `${duration(Date.now() / 1000 - row.active_s)} ago` : ""}</td>
      <td>${row.script}</td><td><code>${row.commit}</code></td></tr>`)}</tbody></table></${Scroll}>`;
}

/** The symbol of a verdict: a crash is worse than a warning. */
function signOf(row) {
  if (row.pending) return "pending";
  const { severity, state } = row;
  if (state === "crashed" && (!severity || (severity === "warning" && row.ending === state))) return state;
  if (severity) return severity;
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
