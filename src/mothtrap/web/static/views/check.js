/** Check: what was proved before the run, the way of the data, and the layers. */
import { findingsAnswer, ticks } from "../data.js";
import { html } from "../html.js";
import { heads, Notice, useJson } from "../parts/basics.js";
import { Weaknesses } from "./probe.js";

const GRADIENTS = { none: "no gradient", zero: "gradient 0" };

export function Check() {
  const answer = useJson("checked", {}, ticks.finding.value);
  if (!answer.value) return html`<h1>Check</h1><${Notice} found=${answer} what="the checks" />`;
  const { passed, undecided, stages, head, rows } = answer.value;
  return html`<h1>Check</h1>
    <div class="columns"><div><${Faults} /><${Lines} title="Passed" of=${passed} none="None." />
      <${Lines} title="Not decided" of=${undecided} /></div>
      ${stages.length > 0 && html`<section aria-labelledby="way"><h2 id="way">Data flow</h2>
        <ol class="way">${stages.map((each, place) => html`<li key=${place} class=${each.gradient}>
          <b>${each.title}</b> <span>${each.about}</span></li>`)}</ol></section>`}</div>
    ${rows.length > 0 && html`<section><h2>Layers</h2><div class="scroll"><table>
      <thead><tr>${heads(head)}</tr></thead>
      <tbody>${rows.map((row, place) => html`<tr key=${place}>${row.map((cell, column) =>
        html`<td key=${column}>${column === 6 ? GRADIENTS[cell] ?? cell : cell}</td>`)}</tr>`)}</tbody>
    </table></div></section>`}`;
}

function Faults() {
  const found = findingsAnswer.value.value;
  return Object.keys(found?.findings ?? {}).length > 0 && html`<${Weaknesses} found=${found} />`;
}

function Lines({ title, of, none }) {
  if (!of.length && !none) return null;
  return html`<section><h2>${title}</h2>${!of.length && html`<p class="muted">${none}</p>`}
    <ul>${of.map((each) => html`<li key=${each}>${each}</li>`)}</ul></section>`;
}
