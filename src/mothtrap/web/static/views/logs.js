/** Logs: the last lines that the job wrote. */
import { useEffect, useRef, useState } from "preact/hooks";
import { source, ticks } from "../data.js";
import { counted } from "../format.js";
import { html } from "../html.js";
import { Empty } from "../parts/basics.js";
import { Search } from "../parts/choices.js";
import { Prose } from "../parts/finding.js";
import { Rows } from "../parts/list.js";
import { save } from "../parts/save.js";
import { change, run, value } from "../state.js";

const MOST = 10_000;
const HEIGHT = 19;
/** Wrapped lines have different heights, so all of them are in the page. */
const MOST_WRAPPED = 2000;

/** @param {string[]} lines */
function saveText(lines) {
  save(new Blob([`${lines.join("\n")}\n`], { type: "text/plain" }), `${run.value}.log`);
}

export function Logs() {
  const [kept, setKept] = useState({ lines: [], next: -1, cut: false, problem: "", read: false });
  const latest = useRef(kept);
  latest.current = kept;
  const query = value("query").toLowerCase();
  useEffect(() => {
    const controller = new AbortController();
    source.json("logs", run.value, { after: latest.current.next }, controller.signal).then((answer) => {
      if (answer.next === latest.current.next && latest.current.read) return;
      const lines = latest.current.next < 0 ? answer.lines : [...latest.current.lines, ...answer.lines];
      setKept({ lines: lines.slice(-MOST), next: answer.problem ? -1 : answer.next,
        cut: latest.current.cut || answer.cut || lines.length > MOST, problem: answer.problem, read: true });
    }, (error) => {
      if (!controller.signal.aborted) setKept({ ...latest.current, problem: error.message, read: true });
    });
    return () => controller.abort();
  }, [ticks.step.value]);
  const shown = query ? kept.lines.filter((line) => line.toLowerCase().includes(query)) : kept.lines;
  return html`<section class="logs"><h1>Output of the job</h1>
    <p class="tools"><${Search} hint="" />
      <label><input type="checkbox" checked=${value("wrap") === "1"}
        onChange=${(event) => change({ wrap: event.target.checked ? "1" : null })} /> Wrap lines</label>
      ${kept.lines.length > 0 && html`<button onClick=${() => saveText(kept.lines)}>Save</button>`}
      <span class="muted" role="status">${counted(shown.length, "line")}${
        kept.cut ? ", older lines not shown" : ""}</span></p>
    ${!kept.read && html`<p class="notice" role="status">Reading the output …</p>`}
    ${kept.problem && html`<${Empty}><${Prose} text=${kept.problem} /></${Empty}>`}
    ${kept.read && !kept.problem && !shown.length && html`<${Empty}>${
      query ? "No line matches." : "The job has not written any output yet."}</${Empty}>`}
    ${shown.length > 0 && value("wrap") === "1" && html`<div class="rows scroll" tabindex="0" role="log" aria-live="off"
      aria-label="Lines of output"><pre class="wrapped">${shown.slice(-MOST_WRAPPED).join("\n")}</pre></div>`}
    ${shown.length > 0 && value("wrap") !== "1" && html`<${Rows} count=${shown.length} rowHeight=${HEIGHT} stick=${!query}
      label="Lines of output" row=${(place) => html`<div class="line" key=${place}>
        ${shown[place] || "\u00a0"}</div>`} />`}
  </section>`;
}
