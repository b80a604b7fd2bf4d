/** Check: what was proved before the run, the path of the data, and the layers. */
import { findingsAnswer, source, ticks } from "../data.js";
import { named } from "../format.js";
import { html } from "../html.js";
import { Notice } from "../parts/notice.js";
import { Status } from "../parts/status.js";
import { useAnswer } from "../parts/use.js";
import { href, run } from "../state.js";

const GRADIENTS = { none: "no gradient", zero: "gradient 0" };

export function Check() {
  const answer = useAnswer((signal) => source.json("checked", run.value, {}, signal), run.value, ticks.finding.value);
  if (!answer.value) return html`<h1>Check</h1><${Notice} found=${answer} what="the checks" />`;
  const { passed, undecided, stages, head, rows } = answer.value;
  return html`<h1>Check</h1>
    <div class="columns"><div><${Faults} /><${Lines} title="Passed" of=${passed} none="None." />
      <${Lines} title="Not decided" of=${undecided} /></div>
      ${stages.length > 0 && html`<section aria-labelledby="way"><h2 id="way">Data flow</h2>
        <ol class="way">${stages.map((each, place) => html`<li key=${place} class=${each.gradient}>
          <b>${each.title}</b> <span>${each.about}</span></li>`)}</ol></section>`}</div>
    ${rows.length > 0 && html`<section><h2>Layers</h2><div class="scroll"><table>
      <thead><tr>${head.map((each) => html`<th scope="col" key=${each}>${each}</th>`)}</tr></thead>
      <tbody>${rows.map((row, place) => html`<tr key=${place}>${row.map((cell, column) =>
        html`<td key=${column}>${column === 6 ? GRADIENTS[cell] ?? cell : cell}</td>`)}</tr>`)}</tbody>
    </table></div></section>`}`;
}

function Faults() {
  const found = Object.values(findingsAnswer.value.value?.findings ?? {}).map((each) => each.finding);
  if (!found.length) return null;
  return html`<section><h2>Findings</h2><ul class="others">${found.map((each) => html`<li key=${each.fingerprint}>
    <a href=${href("findings", { run: run.value, finding: each.fingerprint })}>
      <${Status} of=${each.severity} quiet /> ${each.code} ${named(each)}</a>: ${each.message}</li>`)}</ul></section>`;
}

function Lines({ title, of, none }) {
  if (!of.length && !none) return null;
  return html`<section><h2>${title}</h2>${!of.length && html`<p class="muted">${none}</p>`}
    <ul>${of.map((each) => html`<li key=${each}>${each}</li>`)}</ul></section>`;
}
