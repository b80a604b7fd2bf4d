/** Start of the page: one view at a time, by its address. */
import { render } from "preact";
import { useEffect } from "preact/hooks";
import { html } from "./html.js";
import { onKey } from "./keys.js";
import { Header } from "./parts/header.js";
import { Help } from "./parts/help.js";
import { VIEWS, run, spoken, view } from "./state.js";
import { Curves } from "./views/curves.js";
import { Findings } from "./views/findings.js";
import { Logs } from "./views/logs.js";
import { Overview } from "./views/overview.js";
import { Runs } from "./views/runs.js";

const SHOWN = { runs: Runs, overview: Overview, findings: Findings, curves: Curves, logs: Logs };

function App() {
  const wanted = VIEWS.find((each) => each.id === view.value);
  const shown = wanted.run && !run.value ? "runs" : wanted.id;
  useEffect(() => {
    document.title = run.value ? `${run.value} · ${wanted.title} · mothtrap` : "Runs · mothtrap";
  }, [run.value, shown]);
  return html`<${Header} />
    <main id="main" class=${shown}><${SHOWN[shown]} key=${`${shown} ${run.value}`} /></main>
    <div class="hidden" aria-live="polite">${spoken.value}</div>
    <${Help} />`;
}

document.addEventListener("keydown", onKey);
render(html`<${App} />`, document.getElementById("app"));
