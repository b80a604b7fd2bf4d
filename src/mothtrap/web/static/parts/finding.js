/** Parts of a finding that several views show. */
import { unitOf } from "../data.js";
import { hasStep, named, number, onset, shortPlace } from "../format.js";
import { html } from "../html.js";
import { Scroll, useJson } from "./basics.js";
import { Status } from "./status.js";

/** A text in which words between backticks are code. @param {{text: string}} props */
export function Prose({ text }) {
  return text.split("`").map((part, place) => (place % 2 ? html`<code>${part}</code>` : part));
}

/** The message of a finding as a sentence; a name at its beginning is not capitalized. */
export function Said({ finding }) {
  const named = finding.layers.some((layer) => finding.message.startsWith(layer));
  return html`<p class=${named ? "said" : "said sentence"}><${Prose} text=${finding.message} /></p>`;
}

/** The first layers of a finding; a number alone is not a name. @param {any} finding @param {number} most */
export function layersOf(finding, most) {
  const layers = finding.layers.slice(0, most);
  const word = /^[\d.]+$/.test(layers[0]) ? (layers.length > 1 ? "layers " : "layer ") : "";
  return word + layers.join(", ");
}

/** Where and since when, in one line. @param {{finding: any, sure?: boolean}} props `sure`: also how
 * sure the rule is */
export function Where({ finding, sure = false }) {
  const [step, latest] = onset(finding);
  const unit = unitOf();
  const more = finding.layers.length > 3 ? ` and ${finding.layers.length - 3} more` : "";
  const ranks = finding.workers.length > 1 || finding.workers[0] > 0
    ? html`<span>rank${finding.workers.length > 1 ? "s" : ""} ${finding.workers.join(", ")}</span>` : "";
  return html`<p class="where">${hasStep(finding) && html`
      <span>since ${latest > step ? html`a ${unit} between <b>${number(step)}</b> and <b>${number(latest)}</b>`
        : html`${unit} <b>${number(step)}</b>`}</span>`}
    ${finding.layers.length > 0 && html`<span>in <b>${layersOf(finding, 3)}</b>${more}</span>`}
    ${finding.location && html`<span>at <code title=${finding.location}>${
      shortPlace(finding.location)}</code></span>`}${ranks}
    ${sure && html`<span>confidence <b>${finding.confidence}</b></span>`}</p>`;
}

/** The name of a finding. @param {{finding: any, level?: number, severity?: string}} props severity:
 * the severity of a story, which may be worse than the severity of its root */
export function Title({ finding, level = 2, severity = finding.severity }) {
  const text = html`<${Status} of=${severity} quiet />${" "}${named(finding)}
    ${" "}<small>${finding.code}</small>`;
  return level === 1 ? html`<h1>${text}</h1>` : html`<h2>${text}</h2>`;
}

/** The lines of the script that a finding names. */
export function SourceLines({ run, fingerprint }) {
  const found = useJson("source", { finding: fingerprint }, 0, run);
  const lines = found.value;
  if (found.error) return html`<p class="muted">${found.error.message}</p>`;
  if (!lines) return html`<p class="muted">Reading the source …</p>`;
  if (lines.problem) return html`<p class="muted">${lines.problem}</p>`;
  return html`<${Scroll} label="Source"><pre class="source"><code>${
    lines.lines.map((text, place) => {
      const line = lines.first + place;
      const here = line === lines.line;
      return html`<span class=${here ? "here" : ""} aria-current=${here ? "true" : undefined}><i>${
        String(line).padStart(5)}</i>  ${text}${"\n"}</span>`;
    })}</code></pre></${Scroll}>`;
}

/** Evidence as a short table. */
export function Evidence({ finding }) {
  const rows = Object.entries(finding.evidence).filter(([, value]) => value !== "" && value !== null);
  if (!rows.length) return null;
  return html`<dl class="facts">${rows.map(([name, value]) => html`<div key=${name}><dt>${
    name.replaceAll("_", " ")}</dt><dd>${shown(value)}</dd></div>`)}</dl>`;
}

function shown(value) {
  if (Array.isArray(value)) return value.map(shown).join(", ");
  if (typeof value === "number") return number(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return value === null ? "unknown" : String(value);
}
