/** The numbers of a cell of Layers, and what can be done with it. */
import { problems } from "../data.js";
import { number, words } from "../format.js";
import { html } from "../html.js";
import { Notice } from "../parts/basics.js";
import { Status } from "../parts/status.js";
import { inRun, toFinding } from "../state.js";
import { RuleOfThis } from "./limit.js";

const shown = (found) => (found === null || found === undefined ? "" : number(found));

/** The text that screen readers read for a cell. */
export function spokenCell(cell) {
  const text = cell.bad ? "not finite" : cell.value === null ? "not captured" : number(cell.value);
  return `${cell.tensor} at step ${number(cell.begin)}: ${text}`;
}

/** @param {{cell: any, kind: string, stat: string, mode: string, trial: any,
 *   open: (name: string, step: number) => void, table: boolean, setTable: (on: boolean) => void}} props */
export function CellPanel({ cell, kind, stat, mode, trial, open, table, setTable }) {
  const found = cell.value;
  return html`<aside class="cell" aria-label="Cell">
    ${cell.error && html`<${Notice} found=${cell} what="the cell" />`}
    ${!found && !cell.error && html`<p class="muted">Hover over a cell, or move with the arrow keys.
      Click to open the tensor; drag to zoom.</p>`}
    ${found && html`<h2 class="small">${found.end - found.begin > 1
      ? `Steps ${number(found.begin)} to ${number(found.end - 1)}` : `Step ${number(found.begin)}`}</h2>
      <p class="of"><b>${found.tensor}</b></p>
      ${found.tensor !== found.path && html`<p class="muted">the most extreme tensor in ${found.path.slice(0, -1)}</p>`}
      <dl class="facts">${rows(found, stat).map(([name, text, bad]) => html`<div key=${name}><dt>${name}</dt>
        <dd class=${bad ? "nonfinite" : ""}>${text}</dd></div>`)}</dl>
      <${Told} tensor=${found.tensor} begin=${found.begin} />
      <p class="actions"><button onClick=${() => open(found.tensor, found.begin)}>Open tensor</button>
        <a class="button" href=${inRun("samples", { at: found.begin })}>Samples</a></p>
      ${mode === "train" && html`<${RuleOfThis} chosen=${[`train/${kind}.${stat}/${found.tensor}`]}
        trial=${trial} atValue=${found.value} />`}`}
    <p><button class="plain" aria-expanded=${table} onClick=${() => setTable(!table)}>Table</button></p>
  </aside>`;
}

function rows(cell, stat) {
  const bad = ["NaN", "Inf", "-Inf"].filter((_, bit) => cell.bad & (1 << bit)).join(", ");
  const ratio = cell.median ? cell.value / cell.median : null;
  return [
    [stat.replaceAll("_", " "), cell.value === null ? (cell.captured ? "no finite value" : "not captured")
      : number(cell.value), false],
    ["not finite", bad, true],
    ["lowest", cell.low === cell.high ? "" : shown(cell.low), false],
    ["highest", cell.low === cell.high ? "" : shown(cell.high), false],
    ["median of the tensor", shown(cell.median), false],
    ["times the median", ratio === null || cell.value === null ? "" : number(ratio), false],
    ["non-finite tensors", cell.others_bad > 1 ? number(cell.others_bad) : "", true],
  ].filter(([, text]) => text !== "");
}

/** Findings that name the tensor. */
function Told({ tensor, begin }) {
  const found = problems().filter((each) =>
    each.layers.some((layer) => tensor === layer || tensor.startsWith(`${layer}.`)));
  return found.slice(0, 4).map((each) => html`<p key=${each.fingerprint}>
    <a href=${toFinding(each.fingerprint)}><${Status} of=${each.severity} quiet />
      ${" "}${words(each.name)}</a> since step ${number(each.step)}</p>`);
}
