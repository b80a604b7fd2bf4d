/** Probe: what was tested on a trained model, where it is wrong, and its pictures. */
import { findingsAnswer, runAnswer, source, ticks } from "../data.js";
import { counted, duration, named, number } from "../format.js";
import { html } from "../html.js";
import { Notice } from "../parts/notice.js";
import { Status } from "../parts/status.js";
import { useAnswer } from "../parts/use.js";
import { href, run } from "../state.js";
import { Figure, newest } from "./record.js";

const TITLES = { residuals: "Residuals", quantiles: "Quantiles of the residuals", saliency: "Saliency",
  integrated_gradients: "Integrated gradients", grad_cam: "Class activation maps (Grad-CAM)",
  latent: "Features before the last layer: principal components",
  latent_tsne: "Features before the last layer: t-SNE", pruning: "Score without the least important channels" };
const WAITING = new Set(["not_enough_data", "not_applicable", "rule_failed"]);

export function Probe() {
  const about = runAnswer.value;
  const found = findingsAnswer.value;
  const record = useAnswer((signal) => source.record(run.value, signal), run.value, ticks.finding.value);
  if (!about.value || !found.value) {
    return html`<h1>Probe</h1><${Notice} found=${about.error ? about : found} what="the run" />`;
  }
  const figures = newest(record.value?.told.record.items ?? []).filter((item) => item.kind === "figure");
  return html`<h1>Probe</h1><${Said} about=${about.value} />
    <div class="columns"><div><${Weaknesses} found=${found.value} />
      <${Pictures} of=${figures} notes=${about.value.notes} served=${about.value.served} /></div>
      <div><${Files} of=${about.value.files} /><${Unanswered} rules=${found.value.rules} /></div></div>`;
}

function Said({ about }) {
  if (about.probed) {
    const { probed } = about;
    const columns = probed.columns.length ? ` with ${counted(probed.columns.length, "column")}` : "";
    return html`<p class="sentence">${probed.judged === probed.rows ? `Probed ${counted(probed.rows, "row")}`
      : `Probed a sample of ${number(probed.judged)} of ${counted(probed.rows, "row")}`}${columns}.
      ${" "}${probed.task === "regression" ? "Regression" : "Classification"}, mean loss ${number(probed.loss)}.
      ${" "}${counted(probed.predicted, "prediction")} in ${duration(probed.seconds)}.</p>`;
  }
  const { served } = about;
  if (!served) return html`<p class="sentence">This run is not a probe of a model.</p>`;
  return html`<p class="sentence">Checked ${counted(served.rows, "prediction")} of ${served.model} in
    ${" "}${counted(served.calls, "call")}: ${number(served.failing)} failed, ${number(served.replaced)} were replaced.
    ${served.calls > 0 && ` The checks take ${number(1e6 * served.added_s / served.calls)} µs per call.`}</p>`;
}

function Weaknesses({ found }) {
  const all = Object.values(found.findings).map((each) => each.finding);
  return html`<section><h2>Findings</h2>${!all.length && html`<p class="muted">None.</p>`}
    <ul class="others">${all.map((each) => html`<li key=${each.fingerprint}>
      <a href=${href("findings", { run: run.value, finding: each.fingerprint })}>
        <${Status} of=${each.severity} quiet /> ${each.code} ${named(each)}</a>: ${each.message}${
          each.evidence.rows ? ` (${counted(each.evidence.rows, "row")})` : ""}</li>`)}</ul></section>`;
}

function Pictures({ of, notes, served }) {
  if (served) return null;
  const lacking = notes.filter((note) => note.startsWith("picture "))
    .map((note) => note.replace(" was not observed", " was not drawn"));
  return html`<section aria-labelledby="pictures"><h2 id="pictures">Pictures</h2>
    ${!of.length && html`<p class="muted">None were stored. Store them with ${" "}
      <code>mothtrap probe ... --pictures all</code>.</p>`}
    ${of.map((item) => html`<article class="item" key=${item.number}><h3>${TITLES[item.name] ?? item.name}</h3>
      <${Figure} item=${item} /></article>`)}
    ${lacking.length > 0 && html`<ul class="muted">${lacking.map((note) => html`<li key=${note}>${note}</li>`)}</ul>`}
  </section>`;
}

function Files({ of }) {
  if (!of.length) return null;
  return html`<section><h2>Files</h2><ul>${of.map((line) => html`<li key=${line}>${line}</li>`)}</ul></section>`;
}

function Unanswered({ rules }) {
  const rows = rules.filter((rule) => WAITING.has(rule.state));
  if (!rows.length) return null;
  return html`<section><h2>Not evaluated</h2><dl class="answers">${rows.map((rule) => html`<div key=${rule.code}>
    <dt>${rule.code}</dt><dd>${rule.name.replaceAll("_", " ")}: ${rule.reason}</dd></div>`)}</dl></section>`;
}
