/** Makes a rule of a limit on a curve: where it would have fired, its source, and how it is used. */
import { runAnswer } from "../data.js";
import { counted, number, shortCurve } from "../format.js";
import { html } from "../html.js";
import { Notice, Scroll, useJson } from "../parts/basics.js";
import { Command } from "../parts/copy.js";
import { change, value } from "../state.js";

const SHOWN = 8;

/** The rule in the address; null if there is no rule. */
export function condition() {
  const found = { name: value("of"), side: value("side", "above"), limit: value("limit"),
    for_steps: value("for", "1") };
  return found.name && found.limit !== "" ? found : null;
}

/** The answer to the condition of the address. */
export function useTrial() {
  const asked = condition();
  return useJson("trial", asked, runAnswer.value.value?.cursor);
}

/** Where the rule would have fired, for the chart. */
export const firingMarks = (trial) => (trial.value?.firings ?? []).slice(0, 20).map((each) =>
  ({ step: each.step, severity: "limit", label: "the rule would have fired" }));

/** @param {{chosen: string[], trial: any, atValue: number | null}} props */
export function RuleOfThis({ chosen, trial, atValue }) {
  const curves = chosen.filter((name) => name.startsWith("train/") && !name.endsWith("/*"));
  const asked = condition();
  if (!curves.length) return null;
  const send = (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    change({ of: form.get("of"), side: form.get("side"), limit: form.get("limit"), for: form.get("for") });
  };
  return html`<details class="fold" open=${Boolean(asked)}><summary>Make this a rule</summary>
    <form onSubmit=${send} class="tools">
      <label>Fires when <select name="of">${curves.map((name) => html`<option key=${name} value=${name}
        selected=${name === asked?.name}>${shortCurve(name)}</option>`)}</select></label>
      <label>is <select name="side">${["above", "below"].map((side) => html`<option selected=${
        side === asked?.side}>${side}</option>`)}</select></label>
      <label>limit <input name="limit" type="number" step="any" required value=${asked?.limit ?? ""}
        placeholder=${atValue === null ? "" : number(atValue)} /></label>
      <label>for <input name="for" type="number" min="1" required value=${asked?.for_steps ?? "1"} />
${" "}captured steps in a row</label>
      <button>Show where it would have fired</button>
      ${asked && html`<button type="button" onClick=${() => change({ of: null, side: null, limit: null,
        for: null })}>Clear</button>`}
    </form>
    ${asked && html`<${Notice} found=${trial} what="every step" />`}
    ${asked && trial.value && html`<${Result} trial=${trial.value} many=${curves.length > 1} />`}
  </details>`;
}

function Result({ trial, many }) {
  const count = trial.firings.length + trial.more;
  return html`<p role="status"><b>${count ? `It would have fired ${count === 1 ? "once"
      : counted(count, "time")} in this run.` : "It would not have fired in this run."}</b>
      <span class="muted"> ${counted(trial.values, "captured value")} checked.</span></p>
    ${count > 0 && html`<ul>${trial.firings.slice(0, SHOWN).map((each) => html`<li key=${`${each.curve} ${each.step}`}>
      <button class="plain" onClick=${() => change({ at: each.step })}>step ${number(each.step)}</button>
      ${each.last_step > each.step ? ` to ${number(each.last_step)}` : ""}: ${
        many ? `${shortCurve(each.curve)} is ` : ""}${number(each.value)}</li>`)}
      ${count > SHOWN && html`<li>and ${counted(count - SHOWN, "more time")}</li>`}</ul>`}
    <p class="step"><span>1. Write the rule</span> <${Command} text=${trial.write} /></p>
    <p class="step"><span>2. Use it</span> <${Command} text=${trial.use} /></p>
    <details><summary>Source of the rule</summary><${Scroll} label="Source of the rule"><pre>${trial.source}</pre></${Scroll}></details>`;
}
