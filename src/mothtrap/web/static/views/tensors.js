/** Tensors: the values of a tensor, over all steps and at one step. */
import { useEffect, useRef, useState } from "preact/hooks";
import { unpackedCells } from "../charts/cells.js";
import { Heat } from "../charts/heat.js";
import { LineChart } from "../charts/line.js";
import { Saves } from "../charts/saving.js";
import { isSpread } from "../charts/scale.js";
import { runAnswer, source, ticks } from "../data.js";
import { counted, number, quantity } from "../format.js";
import { html } from "../html.js";
import { Empty, heads, Notice, Scroll, useAnswer, useJson, useKept, useNames, useSeries } from "../parts/basics.js";
import { AllSteps, Pick, picked, PickRank, Search, useZoom, USUAL_KINDS, whole } from "../parts/choices.js";
import { Legend } from "../parts/legend.js";
import { TickList } from "../parts/list.js";
import { change, inRun, run, value } from "../state.js";
import { CaptureMore, HowToCapture } from "./capture.js";
import { filtered } from "./curves.js";
import { RuleOfThis, useTrial } from "./limit.js";
import { TensorValues } from "./tensor_values.js";

const HEIGHT = 400;

export function Tensors() {
  const names = useNames();
  if (!names.value) return html`<${Notice} found=${names} what="the names" />`;
  const kinds = Object.keys(names.value.tensors).filter((each) => each !== "metric");
  if (!kinds.length) {
    return html`<h1 class="hidden">Tensors</h1><${Empty}>No tensors were captured yet. In a new run: ${" "}
      <code>mothtrap run --capture everything train.py</code></${Empty}><${CaptureMore} />`;
  }
  return html`<h1 class="hidden">Tensors</h1><${Chosen} names=${names.value} kinds=${kinds} />`;
}

function Chosen({ names, kinds }) {
  const asked = value("tensor");
  const of = kinds.find((each) => asked.startsWith(`${each}:`));
  const kind = of ?? picked("kind", kinds, USUAL_KINDS);
  const matching = filtered(names.tensors[kind], value("query"));
  const name = of ? asked.slice(of.length + 1) : matching[0] ?? names.tensors[kind][0];
  const pick = (each) => change({ tensor: `${kind}:${each}`, as: null, index: null }, false);
  return html`<div class="split curves">
    <aside aria-label="Choice of a tensor">
      <p class="tools"><${Pick} label="of" name="kind" now=${kind} also=${{ tensor: null, as: null, index: null }}
        choices=${kinds} />
        <${Search} /></p>
      <${TickList} names=${matching} ticked=${[name]} toggle=${pick} label="Tensors" single />
      <${CaptureMore} />
    </aside>
    <div class="tensor"><${One} key=${`${kind}:${name}`} kind=${kind} name=${name}
      statistics=${names.statistics[kind] ?? []} /></div></div>`;
}

function One({ kind, name, statistics }) {
  const at = whole(value("at"));
  const wish = { tensor: `${kind}:${name}`, at, worker: value("worker"), mode: value("mode") };
  const facts = useJson("tensor", wish, ticks.step.value);
  const found = useKept(facts.value, `${kind}:${name} ${wish.worker}`);
  const [total, setTotal] = useState(null);  // rows of the distribution; null = not known yet
  const bare = total === 0 && found !== null && found.raw_step === null;
  return html`<h2 class="name">${name} <small>${kind.replaceAll("_", " ")}</small></h2>
    <${Notice} found=${{ ...facts, value: found }} what="the tensor" />
    ${found && html`<p class="where muted"><span>${found.shape.join(" × ") || "scalar"} ${found.dtype}</span>
      ${found.module && html`<span>${`in ${found.module} ${found.module_type}`.trim()}</span>`}
      ${found.location && html`<span>created at <code>${found.location}</code></span>`}
      ${found.scope && html`<span>${found.scope}</span>`}
      <${PickRank} workers=${found.workers} /></p>`}
    <${Rules} kind=${kind} name=${name} statistics=${statistics} found=${found} />
    <${Distribution} wish=${wish} at=${at} onTotal=${setTotal} isShown=${!bare} />
    ${found && html`<${AtStep} found=${found} kind=${kind} name=${name} bare=${bare} />
      ${bare ? html`<${Bare} tensor=${wish.tensor} />` : html`<${TensorValues} found=${found} wish=${wish} />`}`}`;
}

/** What a run stores of a tensor by default, and how to capture more. */
function Bare({ tensor }) {
  return html`<section><h3>Distribution and values</h3>
    <${Empty}>Only statistics of this tensor were captured.</${Empty}>
    <${HowToCapture} tensor=${tensor} options="--raw --for 20" settings=${["raw = true", "every = 100"]} /></section>`;
}

/** Shares of the values by power of two, over steps. */
function Distribution({ wish, at, onTotal, isShown }) {
  const [from, to] = useZoom();
  const [room, setRoom] = useState(0);  // 0 = not measured so far
  const box = useRef(null);
  const query = { ...wish, at: null, from, to, px: Math.min(1200, Math.max(100, Math.floor(room / 50) * 50)) };
  const answer = useAnswer((signal) => (room ? source.bytes("hist", run.value, query, signal)
    .then(unpackedCells) : null), JSON.stringify([run.value, query, room > 0]), ticks.step.value);
  const cells = useKept(answer.value?.total ? answer.value : null, wish.tensor);
  useEffect(() => { if (answer.value) onTotal(answer.value.total); }, [answer.value]);
  useEffect(() => {
    const watched = new ResizeObserver(() => setRoom((box.current?.clientWidth ?? 960) - 110));
    watched.observe(box.current);
    return () => watched.disconnect();
  }, []);
  const nothing = answer.value?.total === 0 && !cells;
  const rowHeight = cells ? Math.max(4, Math.min(16, Math.floor(HEIGHT / cells.total))) : 16;
  const every = Math.ceil(14 / rowHeight);
  const move = (_, step) => change({ at: step });
  return html`<section class="spread" ref=${box} hidden=${!isShown}><h3>Distribution over steps</h3>
    ${nothing ? html`<${Uncounted} tensor=${wish.tensor} />`
      : html`<${Notice} found=${{ ...answer, value: cells }} what="the distribution" />`}
    ${cells && html`<${Heat} cells=${cells} rowHeight=${rowHeight} at=${at} here=${-1} sparse
        sentence=${spreadSentence(cells, wish.tensor)} onMove=${move} onPick=${move} maxHeight=${540}
        onZoom=${(first, end) => change({ from: first, to: end }, false)}
        label=${(place) => labelOf(cells.bands, place, every)} />
      <${Legend} low=${0} high=${1} of="share of the values" zero=${false} ends=${["0.0001 %", "100 %"]} />
      <p class="muted">${counted(cells.moments, "step")} with ${cells.of}${cells.width > 1
        ? `; each column covers ${cells.width} steps and shows the largest share` : ""}. ${cells.note} <${AllSteps} /></p>`}</section>`;
}

/** Names of bands are shown where there is room; names of special bands are always shown. */
function labelOf(bands, place, every) {
  const band = bands[place];
  if (band.sort === "bad" || band.sort === "zero") return html`<b>${band.label}</b>`;
  const near = (sort) => bands.some((each, other) => each.sort === sort && Math.abs(other - place) < every);
  return place % every || near("bad") || near("zero") ? "" : band.label;
}

function spreadSentence(cells, tensor) {
  const held = cells.bands.filter((band, place) => band.power && cells.codes.subarray(
    place * cells.columns, (place + 1) * cells.columns).some((code) => code > 1));
  const powers = held.map((band) => band.power);
  const range = powers.length ? `, magnitudes from 2^${Math.min(...powers)} to 2^${Math.max(...powers) + 1}` : "";
  const bad = cells.codes.subarray(0, cells.columns).some((code) => code > 1) ? ", some not finite" : "";
  return `Distribution of ${tensor}, steps ${number(cells.begin)} to ${
    number(cells.begin + cells.columns * cells.width - 1)}${range}${bad}. Arrow keys move the cursor.`;
}

function Uncounted({ tensor }) {
  return html`<${Empty}>Neither exponents nor values of this tensor were captured.</${Empty}>
    <${HowToCapture} tensor=${tensor} options="--statistic exponents --every 1"
      settings=${['statistics = ["exponents"]', "every = 1"]} />`;
}

/** Histogram and statistics at the cursor. */
function AtStep({ found, kind, name, bare }) {
  const bars = found.histogram;
  const most = Math.max(...bars.map((each) => each.share), 1e-9);
  const poor = found.fits.filter((each) => each.vanishing + each.overflowing + each.subnormal > 0.001);
  const percent = (share) => `${number(100 * share)} %`;
  return html`<div class="columns">${!bare && html`<section><h3>${found.histogram_step === null ? "Histogram"
      : `Histogram at step ${number(found.histogram_step)}`}</h3>
    ${bars.length > 0 ? html`<${Scroll} also="bars" label="Histogram"><table><thead class="hidden"><tr>
        ${heads(["values", "share"])}</tr></thead><tbody>${bars.map((each) => html`
        <tr key=${each.label} class=${each.sort}><th scope="row">${each.label}</th>
        <td><i style=${{ width: `${Math.max(100 * each.share / most, each.share ? 0.5 : 0)}%` }}></i></td>
        <td class="number">${each.share ? percent(each.share) : ""}</td></tr>`)}</tbody></table></${Scroll}>`
      : html`<${Empty}>No histogram: ${found.problem || "nothing was captured"}.</${Empty}>`}
    ${poor.length > 0 && html`<ul class="fits">${poor.map((each) => html`<li key=${each.dtype}>as ${each.dtype}: ${[["become 0", each.vanishing], ["lose precision", each.subnormal], ["overflow", each.overflowing]]
        .filter(([, share]) => share > 0.001).map(([what, share]) => `${percent(share)} ${what}`).join(", ")}</li>`)}</ul>`}
    </section>`}
    <section><h3>${found.step === null ? "Statistics" : `Statistics at step ${number(found.step)}`}</h3>
      ${Object.keys(found.statistics).length ? html`<dl class="facts">${Object.entries(found.statistics).map(
        ([id, each]) => html`<div key=${id}><dt>${id.replaceAll("_", " ")}</dt><dd><a
          href=${inRun("curves", { name: `${value("mode", "train")}/${kind}.${id}/${name}`, at: found.step })}>
          ${each === null ? "NaN" : number(Number(each))}</a></dd></div>`)}</dl>`
        : html`<${Empty}>No statistics were captured.</${Empty}>`}
      ${found.step !== null && runAnswer.value.value?.views.includes("samples") && html`<p><a href=${inRun("samples", { at: found.step })}>
        Samples of step ${number(found.step)}</a></p>`}</section></div>`;
}

/** A statistic of the tensor over all steps. */
function Course({ name }) {
  const answer = useSeries({ name: [name], px: 800, worker: value("worker") });
  const curves = answer.value?.curves ?? [];
  return html`<${Notice} found=${answer} what="the curve" />
    ${curves.length > 0 && html`<${LineChart} curves=${curves} gaps=${runAnswer.value.value?.gaps} title=${quantity(name)}
      scale=${isSpread(curves) ? "log" : "linear"} height=${200} at=${whole(value("at"))} onAt=${(step) => change({ at: step })}
      saves=${Saves} />`}`;
}

/** A limit on a statistic of the tensor. */
function Rules({ kind, name, statistics, found }) {  // `found` is null until it is read
  const trial = useTrial();
  const stat = picked("stat", statistics);
  if (!stat) return null;
  return html`<section><h3>Statistic over steps</h3>
    <p class="tools"><${Pick} label="statistic" name="stat" now=${stat}
      choices=${statistics} /></p>
    <${Course} name=${`${value("mode", "train")}/${kind}.${stat}/${name}`} />
    <${RuleOfThis} chosen=${[`train/${kind}.${stat}/${name}`]} trial=${trial}
      atValue=${Number.isFinite(found?.statistics[stat]) ? found.statistics[stat] : null} /></section>`;
}
