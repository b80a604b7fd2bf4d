/** Record: who ran what, with which parameters and data, and what the script logged. */
import { useEffect, useRef, useState } from "preact/hooks";
import { runAnswer, source, ticks } from "../data.js";
import { number, counted } from "../format.js";
import { html } from "../html.js";
import { Ask } from "../parts/ask.js";
import { Empty, heads, Notice, Scroll, useAnswer, useJson } from "../parts/basics.js";
import { run } from "../state.js";

const ROWS = 50;
const ITEMS = 60;
const ORDER = ["data", "code", "packages", "who", "machine", "when", "outcome", "weights"];
const STATIC = new Set(["png", "vega-lite"]);
const LOWEST = 80;
const HIGHEST = 900; // pixels of a picture; a figure cannot push the rest of the page away

export function Record() {
  const answer = useJson("record", {}, ticks.finding.value);
  const found = answer.value;
  return html`<h1>Record</h1><${Notice} found=${answer} what="the record" />
    ${found && html`<div class="columns"><div>
      <${Parameters} of=${found.told.record} />
      <${Items} items=${newest(found.told.record.items)} /></div>
      <div><${Labels} of=${found.told.labels} />
        <section aria-labelledby="answers"><h2 id="answers">About the run</h2><dl class="answers">${
          ORDER.filter((name) => found.answers[name]).map((name) => html`<div key=${name}>
            <dt>${name}</dt><dd>${found.answers[name]}</dd></div>`)}</dl></section>
        <${Metrics} of=${found.told.metrics} /></div></div>`}`;
}

/** The latest version of each item. @param {any[]} items */
export function newest(items) {
  return [...new Map(items.map((item) => [`${item.kind} ${item.name}`, item])).values()];
}

function Parameters({ of }) {
  const names = Object.keys(of.parameters);
  const given = new Set(of.given);
  names.sort((a, b) => Number(given.has(b)) - Number(given.has(a)) || a.localeCompare(b));
  return html`<section aria-labelledby="parameters"><h2 id="parameters">Parameters ${
    of.parameters_from && html`<small>${of.parameters_from}</small>`}</h2>
    ${!names.length && html`<${Empty}>No parameters were found. A script can log them:
      ${" "}<code>mothtrap.log_params(lr=0.1)</code></${Empty}>`}
    ${names.length > 0 && html`<${Scroll} label="Table of parameters">
      <table class="list"><tbody>${names.map((name) => html`<tr key=${name}>
        <th scope="row">${name}${given.has(name) ? html` <small>set</small>` : ""}</th>
        <td>${shown(of.parameters[name])}</td></tr>`)}</tbody></table></${Scroll}>`}</section>`;
}

function Metrics({ of }) {
  const names = Object.keys(of);
  if (!names.length) return null;
  return html`<section aria-labelledby="metrics"><h2 id="metrics">Last values</h2>
    <table class="list"><tbody>${names.map((name) => html`<tr key=${name}>
      <th scope="row">${name}</th><td class="number">${shown(of[name])}</td></tr>`)}</tbody></table></section>`;
}

function Labels({ of }) {
  const [text, setText] = useState("");
  const field = { text };
  const about = runAnswer.value.value;
  return html`<section aria-labelledby="labels"><h2 id="labels">Tags and notes</h2>
    <p class="tools">${of.tags.map((tag) => html`<span class="tag" key=${tag}>${tag}
      <${Ask} what="untag" body=${{ text: tag }}><span aria-label=${`Remove tag ${tag}`}>×</span></${Ask}></span>`)}
      ${of.group && html`<span class="muted">group ${of.group}</span>`}
      ${of.archived && html`<span class="muted">archived</span>`}
      ${!of.tags.length && !of.group && html`<span class="muted">No tags</span>`}</p>
    <p class="tools"><label>Text <input value=${text} maxlength="4000"
        onInput=${(event) => setText(event.target.value)} /></label>
      <${Ask} what="tag" body=${field}>Tag</${Ask}><${Ask} what="note" body=${field}>Note</${Ask}>
      <${Ask} what="group" body=${field}>Group</${Ask}>
      ${about && html`<${Ask} what=${of.archived ? "restore" : "archive"} body=${{}}>${
        of.archived ? "Restore" : "Archive"}</${Ask}>`}</p>
    ${of.notes.length > 0 && html`<ul class="notes">${of.notes.map((note, place) => html`<li key=${place}>
      ${note.text} <small>${note.by}</small></li>`)}</ul>`}</section>`;
}

function Items({ items }) {
  if (!items.length) return null;
  const more = items.length - ITEMS;
  return html`<section aria-labelledby="logged"><h2 id="logged">Logged ${" "}
    <small>${counted(items.length, "item")}</small></h2>
    ${items.slice(0, ITEMS).map((item) => html`<${Item} key=${item.number} item=${item} />`)}
    ${more > 0 && html`<p class="muted">… and ${number(more)} more.</p>`}</section>`;
}

function Item({ item }) {
  const about = Object.entries(item.about).map(([name, value]) => `${name} ${shown(value)}`).join(", ");
  return html`<article class="item"><h3>${item.name} <small>${item.kind}, step ${number(item.step)}${
    about && `; ${about}`}</small></h3><${Content} item=${item} /></article>`;
}

function Content({ item }) {
  if (item.kind === "image") {
    return html`<img class="logged" alt=${item.name} src=${source.itemUrl(run.value, item.number)} />`;
  }
  if (item.kind === "figure") return html`<${Figure} item=${item} />`;
  if (item.kind === "artifact") {
    return html`<p class="muted">SHA-256 <code>${item.digest}</code>, ${number(item.size_bytes)} bytes
      ${item.file && html`<a download=${item.name} href=${source.itemUrl(run.value, item.number)}>Download</a>`}</p>`;
  }
  return html`<${Read} item=${item} />`;
}

/** A figure in a sandbox. A figure that runs code is started by a click. A picture reports its height. */
export function Figure({ item }) {
  const form = String(item.about.format ?? "");
  const [on, setOn] = useState(STATIC.has(form));
  const [height, setHeight] = useState(null);
  const frame = useRef(null);
  useEffect(() => {
    const told = (event) => {
      if (event.source === frame.current?.contentWindow && Number.isFinite(event.data?.height)) {
        setHeight(Math.min(Math.max(event.data.height, LOWEST), HIGHEST));
      }
    };
    addEventListener("message", told);
    return () => removeEventListener("message", told);
  }, []);
  const url = source.figureUrl(run.value, item.number);
  if (!on) return html`<p><button onClick=${() => setOn(true)}>Show this figure (it runs a script)</button></p>`;
  return html`<iframe class="logged-figure" title=${`Figure ${item.name}`} sandbox="allow-scripts" loading="lazy"
      ref=${frame} style=${height && `height: ${height}px`} src=${`${url}&inside=1`}></iframe>
    <p class="muted"><a href=${url} target="_blank" rel="noreferrer">Open in a new tab</a></p>`;
}

/** A text, a table or predictions, read when they are shown. */
function Read({ item }) {
  const answer = useAnswer((signal) => source.item(run.value, item.number, item.kind !== "text", signal),
    `${run.value} ${item.number}`);
  const found = answer.value;
  if (found === null) return html`<${Notice} found=${answer} what=${item.name} />`;
  if (item.kind === "text") return html`<pre class="logged">${found}</pre>`;
  if (item.kind === "table") return html`<${Table} of=${found} name=${item.name} />`;
  return html`<${Confusion} of=${found} name=${item.name} />
    <div class="curves">${curvesOf(found).map((each) => html`<${CurvePicture} key=${each.title} ...${each} />`)}</div>`;
}

function Table({ of, name }) {
  const more = of.row_count - Math.min(of.rows.length, ROWS);
  return html`<${Scroll} label=${`Table ${name}`}><table class="list">
    <thead><tr>${heads(of.columns)}</tr></thead>
    <tbody>${of.rows.slice(0, ROWS).map((row, place) => html`<tr key=${place}>${row.map((cell, at) => html`<td key=${at}
      class=${typeof cell === "number" ? "number" : undefined}>${shown(cell)}</td>`)}</tr>`)}</tbody></table></${Scroll}>
    ${more > 0 && html`<p class="muted">… and ${counted(more, "more row")}.</p>`}`;
}

function Confusion({ of, name }) {
  const most = Math.max(1, ...of.confusion.flat());
  return html`<${Scroll} label=${`Confusion matrix of ${name}`}>
    <table class="list confusion"><thead><tr>${heads(["true \\ predicted", ...of.classes])}</tr></thead>
    <tbody>${of.confusion.map((row, place) => html`<tr key=${place}><th scope="row">${of.classes[place]}</th>
      ${row.map((count, at) => html`<td key=${at} class="number" ref=${(cell) => {
        if (cell) cell.style.setProperty("--share", String(Math.round((100 * count) / most)));
      }}>${number(count)}</td>`)}</tr>`)}</tbody></table></${Scroll}>`;
}

/** @param {any} of */
function curvesOf(of) {
  return [
    { title: "ROC", x: "false positive rate", y: "true positive rate", curves: of.roc },
    { title: "Precision and recall", x: "recall", y: "precision", curves: of.precision_recall },
  ].filter((each) => each.curves.length);
}

function CurvePicture({ title, x, y, curves }) {
  const said = curves.map((curve) => `${curve.label} ${number(curve.area)}`).join(", ");
  return html`<figure><svg class="curve" viewBox="0 0 220 220" role="img" aria-label=${`${title}: area ${said}`}>
    <path class="axis" d="M30 10V190H210" />
    ${curves.map((curve, place) => html`<polyline key=${place} style=${{ stroke: `var(--series-${(place % 8) + 1})` }}
      points=${curve.x.map((at, i) => `${(30 + 180 * at).toFixed(1)},${(190 - 180 * curve.y[i]).toFixed(1)}`).join(" ")} />`)}
    <text x="30" y="208">${x}</text><text x="20" y="190" transform="rotate(-90 20 190)">${y}</text></svg>
    <figcaption class="muted">${title}, area: ${said}</figcaption></figure>`;
}

const shown = (value) => (value === null ? "" : typeof value === "number" ? number(value) : String(value));
