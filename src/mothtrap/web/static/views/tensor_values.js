/** Captured values of a tensor: a matrix, images, filters, feature maps, attention, classes, channels. */
import { MatrixPicture } from "../charts/matrix.js";
import { source } from "../data.js";
import { counted, number } from "../format.js";
import { html } from "../html.js";
import { Empty, Notice } from "../parts/notice.js";
import { useAnswer } from "../parts/use.js";
import { change, run, value, values } from "../state.js";
import { HowToCapture } from "./capture.js";

const NAMES = { matrix: "Matrix", images: "Images", filters: "Filters", maps: "Feature maps",
  attention: "Attention heads", confusion: "Confusion matrix", channels: "Channels" };

/** @param {{found: any, wish: any}} props */
export function TensorValues({ found, wish }) {
  if (found.raw_step === null) return html`<section><h3>Values</h3><${NotKept} wish=${wish} /></section>`;
  const { views } = found;
  const as = views.includes(value("as")) ? value("as") : views[0];
  const at = { ...wish, at: found.raw_step };
  return html`<section class="values"><h3>Values at step ${number(found.raw_step)}${" "}
      <small>stored at ${counted(found.raw_steps, "step")}</small></h3>
    <p class="tools" role="group" aria-label="Shown as">${views.map((each) => html`<button key=${each}
      aria-pressed=${each === as} onClick=${() => change({ as: each })}>${NAMES[each]}</button>`)}</p>
    ${as === "matrix" && html`<${AsMatrix} at=${at} />`}
    ${as === "channels" && html`<${AsChannels} at=${at} />`}
    ${as === "confusion" && html`<${AsConfusion} at=${at} />`}
    ${["images", "filters", "maps", "attention"].includes(as) && html`<${AsPicture} at=${at} as=${as} shape=${found.raw_shape} />`}
  </section>`;
}

function NotKept({ wish }) {
  return html`<${Empty}>Only statistics of this tensor were captured, no values.</${Empty}>
    <${HowToCapture} tensor=${wish.tensor} options="--raw --for 20" settings=${["raw = true", "every = 100"]} />`;
}

/** The values that the address names, for the chosen index. */
function useValues(at, more = {}) {
  const query = { ...at, ...more };
  return useAnswer((signal) => source.json("values", run.value, query, signal), JSON.stringify([run.value, query]));
}

function AsMatrix({ at }) {
  const index = values("index");
  const pool = value("pool", "max");
  const answer = useValues(at, { index, pool });
  const found = answer.value;
  if (!found) return html`<${Notice} found=${answer} what="the values" />`;
  const [tall, wide] = found.block;
  const set = (axis, to) => change({ index: found.index.map((each, place) => (place === axis ? to : each)) });
  const span = (first, size, most) => (size > 1 ? `${first * size}–${Math.min((first + 1) * size, most) - 1}` : `${first}`);
  return html`<p class="tools">${found.index.map((each, axis) => html`<label key=${axis}>axis ${axis}
      <input type="number" min="0" max=${found.shape[axis] - 1} value=${each}
        onChange=${(event) => set(axis, event.target.value)} />${" "}of ${number(found.shape[axis])}</label>`)}
      ${tall * wide > 1 && html`<label>pooled by <select value=${pool} onChange=${(event) => change({ pool: event.target.value })}>
        <option value="max" selected=${pool === "max"}>farthest from 0</option>
        <option value="mean" selected=${pool === "mean"}>mean</option></select></label>
        <span class="muted">each cell covers ${tall} × ${wide} values</span>`}</p>
    <${MatrixPicture} cells=${found.cells} low=${found.low} high=${found.high} title="Values"
      place=${(row, column) => `row ${span(row, tall, found.rows)}, column ${span(column, wide, found.columns)}`} />`;
}

function AsChannels({ at }) {
  const answer = useValues(at);
  const found = answer.value;
  if (!found) return html`<${Notice} found=${answer} what="the values" />`;
  if (!found.channels.length) return html`<${Empty}>Axis ${found.channel_axis} has too many channels to list.</${Empty}>`;
  const finite = found.channels.flat().filter((each) => Number.isFinite(each));
  const most = Math.max(...finite, 1e-30);
  return html`<div class="scroll bars" tabindex="0" role="region" aria-label="Channels"><table>
    <thead><tr><th scope="col">axis ${found.channel_axis}</th><th scope="col">mean magnitude</th><td></td>
      <th scope="col">largest</th></tr></thead>
    <tbody>${found.channels.map(([mean, high], place) => html`<tr key=${place}><th scope="row">${place}</th>
      <td class="wide">${mean === 0 && high === 0 ? html`<b>all 0</b>` : html`<i class="faint" style=${{ width: `${share(high, most)}%` }}></i>
        <i style=${{ width: `${share(mean, most)}%` }}></i>`}</td>
      <td class="number">${shown(mean)}</td><td class="number">${shown(high)}</td></tr>`)}</tbody></table></div>`;
}

const share = (size, most) => (Number.isFinite(size) ? 100 * size / most : 100);
const shown = (size) => (Number.isFinite(size) ? number(size) : "not finite");

function AsConfusion({ at }) {
  const answer = useAnswer((signal) => source.json("confusion", run.value, at, signal),
    JSON.stringify([run.value, at]));
  const found = answer.value;
  if (!found) return html`<${Notice} found=${answer} what="labels and outputs" />`;
  const most = Math.max(1, ...found.cells.flat());
  return html`<p><b>${number(found.right)} of ${number(found.count)}</b> predictions match the label
      (${number(100 * found.right / found.count)} %). Rows: ${found.labels}; columns: predicted class (largest output).</p>
    <${MatrixPicture} cells=${found.cells} low=${0} high=${most} title="Confusion matrix"
      place=${(row, column) => `label ${row}, predicted ${column}`} />`;
}

function AsPicture({ at, as, shape }) {
  const sample = value("sample", "0");
  const query = new URLSearchParams({ run: run.value, as, sample });
  for (const [name, given] of Object.entries(at)) if (given !== null && given !== "") query.set(name, given);
  const said = { images: `${Math.min(shape[0], 64)} images of the batch`,
    filters: `Convolution filters, ${shape[0]} outputs, ${shape[1]} inputs`,
    maps: `Feature maps of sample ${sample}`,
    attention: `Attention heads${shape.length === 4 ? ` of sample ${sample}` : ""}` }[as];
  const ofSample = as === "maps" || (as === "attention" && shape.length === 4);
  return html`${ofSample && html`<p class="tools"><label>sample <input type="number" min="0"
      max=${shape[0] - 1} value=${sample} onChange=${(event) => change({ sample: event.target.value })} />${" "}of ${shape[0]}</label></p>`}
    <div class="scroll picture" tabindex="0" role="region" aria-label="Picture"><img src="./api/picture?${query}" alt="${said} at step ${at.at}" /></div>
    <p class="muted">${said}. ${{ images: "Black is the lowest value, white the highest.",
      filters: shape[1] === 3 ? "Gray is 0." : "Rows are outputs, columns the first 8 inputs; blue is negative, orange positive.",
      maps: "Each tile is a channel; blue is negative, orange positive.",
      attention: "Rows are queries, columns are keys; dark is 0, yellow is 1." }[as]}</p>`;
}
