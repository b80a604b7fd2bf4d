/** Samples: the data that a step trained on, other steps with the same data, and the replay. */
import { useState } from "preact/hooks";
import { findingsAnswer, runAnswer, ticks } from "../data.js";
import { counted, number, shortCurve, shortPlace } from "../format.js";
import { html } from "../html.js";
import { useActions } from "../keys.js";
import { Ask } from "../parts/ask.js";
import { Empty, heads, Notice, Scroll, useJson } from "../parts/basics.js";
import { whole } from "../parts/choices.js";
import { Command } from "../parts/copy.js";
import { Prose } from "../parts/finding.js";
import { change, run, value } from "../state.js";

const SHOWN = 64;

export function Samples() {
  const about = runAnswer.value.value;
  const first = firstBad();
  const at = whole(value("at")) ?? first ?? Math.max(0, (about?.steps ?? 1) - 1);
  const last = Math.max(0, (about?.steps ?? 1) - 1);
  const [replays, setReplays] = useState(0);
  const answer = useJson("samples", about && { at }, `${ticks.finding.value} ${replays}`);
  const found = answer.value;
  const set = (step) => change({ at: Math.min(Math.max(step, 0), last) });
  useActions({ step: (by) => set(at + by) });
  return html`<h1 class="hidden">Samples</h1>
    <p class="tools"><button onClick=${() => set(at - 1)} disabled=${at <= 0} aria-label="Previous step">◀</button>
      <label>step <input data-search type="number" min="0" max=${last} value=${at}
        onChange=${(event) => set(Number(event.target.value))} /></label>
      <button onClick=${() => set(at + 1)} disabled=${at >= last} aria-label="Next step">▶</button>
      ${first !== null && html`<button onClick=${() => set(first)}>First bad step: ${number(first)}</button>`}
      ${found?.losses.map((loss) => html`<span key=${loss.curve}>${shortCurve(loss.curve)} ${" "}
        <b class=${loss.value === null ? "nonfinite" : ""}>${loss.value === null ? "not finite" : number(loss.value)}</b></span>`)}</p>
    <${Notice} found=${answer} what="the samples" />
    ${found && html`<div class="columns"><div><${Ranks} found=${found} /><${Seen} /></div>
      <div><${Replay} found=${found} at=${at} done=${() => setReplays(replays + 1)} /></div></div>`}`;
}

/** The step at which the worst story begins; null if the run has no story. */
function firstBad() {
  const found = findingsAnswer.value.value;
  const story = found?.stories.find((each) => each.severity !== "info");
  return story ? found.findings[story.root].finding.step : null;
}

function Ranks({ found }) {
  const suspects = new Set(found.replay && found.replay_step === found.step ? found.replay.rows ?? [] : []);
  if (!found.ranks.length) {
    return html`<section><h2>Samples of step ${number(found.step)}</h2><${Empty}>The samples of this step are
      unknown. They are recorded if the batches come from a data loader of the framework, or if the batch
      is a tensor in host memory. <code>mothtrap run train.py</code> records them automatically.</${Empty}></section>`;
  }
  return found.ranks.map((rank) => html`<section key=${`${rank.worker} ${rank.attempt}`}>
    <h2>Samples of step ${number(rank.step)}${found.ranks.length > 1 ? `, rank ${rank.worker}` : ""}</h2>
    ${rank.batches.map((batch, place) => html`<${Batch} key=${place} batch=${batch} found=${found} suspects=${suspects} />`)}
    ${rank.left_out > 0 && html`<p class="muted">${counted(rank.left_out, "further micro-batch")} not stored</p>`}
    ${found.more > 0 && html`<p class="muted">and ${counted(found.more, "more sample")}: ${" "}
      <code>mothtrap samples ${run.value} --step ${found.step}</code></p>`}</section>`);
}

function Batch({ batch, found, suspects }) {
  const [all, setAll] = useState(false);
  const rows = all ? batch.samples : batch.samples.slice(0, SHOWN);
  const about = [batch.loader && `${/^loader /.test(batch.loader) ? "" : "loader "}${shortPlace(batch.loader)}`, counted(batch.rows, "row"),
    batch.pass && `pass ${batch.pass}`].filter(Boolean).join(", ");
  const named = rows.some((row) => row.name);
  const digests = rows.some((row) => row.digest);
  const indexed = rows.some((row) => row.index !== undefined && row.index !== null);
  const sources = rows.some((row) => found.data[String(row.data)]);
  return html`<p class="muted">${about}</p>
    <${Scroll} also="short" label="Samples"><table class="list"><thead><tr>
      ${heads(["row", indexed && "index", named && "file or name", digests && "digest of the row", sources && "source"].filter(Boolean))}<td></td></tr></thead>
    <tbody>${rows.map((row, place) => html`<tr key=${place}><th scope="row">${place}${suspects.has(place)
        ? html` <span class="status error">✖ bad row</span>` : ""}</th>
      ${indexed && html`<td>${row.index ?? ""}</td>`}${named && html`<td>${row.name ?? ""}</td>`}
      ${digests && html`<td><code>${row.digest ?? ""}</code></td>`}
      ${sources && html`<td>${found.data[String(row.data)] ?? ""}</td>`}
      <td><button class="plain" onClick=${() => change({ sample: row.name ?? String(row.index ?? row.digest) })}
        aria-label="Other steps with ${row.name ?? row.index ?? row.digest}">other steps</button></td></tr>`)}</tbody></table></${Scroll}>
    ${batch.samples.length > rows.length && html`<button onClick=${() => setAll(true)}>
      All ${number(batch.samples.length)} rows</button>`}`;
}

/** Steps that trained on a sample. */
function Seen() {
  const sample = value("sample");
  const answer = useJson("seen", sample && { sample });
  if (!sample) return null;
  const found = answer.value;
  return html`<section><h2>Steps that trained on ${sample}</h2><${Notice} found=${answer} what="all steps" />
    ${found && !found.found.length && html`<${Empty}>No recorded step trained on it.</${Empty}>`}
    ${found?.found.map((each) => html`<p key=${JSON.stringify(each.name ?? each.index ?? each.digest)}>
      <b>${each.name ?? each.index ?? each.digest}</b>${" "}in ${counted(each.steps.length, "step")}: ${" "}
      ${each.steps.slice(0, 60).map((place, nth) => html`<button class="plain" key=${nth}
        onClick=${() => change({ at: place.step })}>${number(place.step)}${place.worker ? ` (rank ${place.worker})` : ""}</button>`)}
      ${each.steps.length > 60 ? ` and ${number(each.steps.length - 60)} more` : ""}</p>`)}
    <button onClick=${() => change({ sample: null })}>Close</button></section>`;
}

/** The replay of a step: its command and its result. */
function Replay({ found, at, done }) {
  const about = runAnswer.value.value;
  return html`<section><h2>Replay</h2>
    ${found.command ? html`<p class="step"><${Command} text=${found.command} label="Copy replay" />
        ${found.runs_replays && html`<${Ask} what="replay" body=${{ step: at }} done=${done}
          sure="Execute the script of the run?">Replay here</${Ask}>`}</p>
        ${!found.runs_replays && html`<p class="muted">A replay executes the script of the run, so the page
          can start it only if the server was started with <code>mothtrap ui --allow-replay</code>.</p>`}`
      : html`<p>The state of this step was not stored.${found.replayable.length > 0 && html`${" "}Stored steps: ${" "}
        ${found.replayable.slice(0, 20).map((step) => html`<button class="plain" key=${step}
          onClick=${() => change({ at: step })}>${number(step)}</button>`)}`}</p>
        ${about?.controls.includes("snapshot") ? html`<p><${Ask} what="snapshot" body=${{}}>Snapshot the next step</${Ask}></p>`
          : !found.replayable.length && html`<p class="muted">To store a step of a running job: <code>mothtrap snapshot ${about?.called ?? "RUN"}</code></p>`}`}
    ${found.replay && html`<${Result} result=${found.replay} step=${found.replay_step} />`}
  </section>`;
}

/** The steps of the localization, each with its values. */
function Result({ result, step }) {
  const number0 = (each) => (typeof each === "number" ? number(each) : String(each ?? "not finite"));
  const loss = result.losses?.map(number0).join(", ");
  const inRun = result.losses_in_run?.map(number0).join(", ");
  const match = result.match === true ? "bit-identical to the run" : result.match === false
    ? "not identical to the run" : "cannot be compared with the run";
  const chain = [
    ["loss", loss ? `${loss}${inRun && inRun !== loss ? ` (in the run ${inRun})` : ""}` : ""],
    ["exception", result.exception ? `${result.exception}${result.raised_at ? ` at ${result.raised_at}` : ""}` : ""],
    ["gradients not finite", (result.nonfinite_gradients ?? []).slice(0, 4).join(", ")],
    ["first bad module", result.module], ["operation", result.operation], ["line", result.location],
    ["already bad on input", result.holder],
    ["bad rows", (result.rows ?? []).slice(0, 20).map((row, place) =>
      `${row}${result.samples?.[place] ? ` (${result.samples[place]})` : ""}`).join(", ")],
  ].filter(([, text]) => text);
  return html`<h3>Step ${number(step)}, replayed: ${match}</h3>
    <ol class="chain-steps">${chain.map(([what, text]) => html`<li key=${what}><span class="muted">${what}</span> <b>${text}</b></li>`)}</ol>
    ${(result.told ?? []).length > 0 && html`<ul>${result.told.map((each) => html`<li key=${each}><${Prose} text=${each} /></li>`)}</ul>`}
    ${(result.notes ?? []).map((each) => html`<p class="muted" key=${each}>${each}</p>`)}`;
}
