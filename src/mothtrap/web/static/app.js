/** Start of the page: one view at a time, by its address. */
import { signal } from "@preact/signals";
import { render } from "preact";
import { useEffect } from "preact/hooks";
import { runAnswer } from "./data.js";
import { html } from "./html.js";
import { onKey } from "./keys.js";
import { Header } from "./parts/header.js";
import { Help } from "./parts/help.js";
import { Notice } from "./parts/notice.js";
import { sign } from "./parts/status.js";
import { VIEWS, run, spoken, view } from "./state.js";
import { Curves } from "./views/curves.js";
import { Findings } from "./views/findings.js";
import { Logs } from "./views/logs.js";
import { Overview } from "./views/overview.js";
import { Runs } from "./views/runs.js";

/** The views that are loaded when the first of them is opened. */
const deep = signal({ views: {}, problem: "" });
let asked = false;

async function loadDeep() {
  if (asked) return;
  asked = true;
  try {
    const [{ DEEP }] = await Promise.all([import("./views/deep.js"), sheet("./views/deep.css")]);
    deep.value = { views: DEEP, problem: "" };
  } catch {
    asked = false;
    deep.value = { views: {}, problem: "The view could not be loaded; the server does not answer." };
  }
}

/** Add a style sheet to the page. @param {string} address */
function sheet(address) {
  return new Promise((done, failed) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = address;
    link.onload = done;
    link.onerror = failed;
    document.head.append(link);
  });
}

function Deep({ name }) {
  useEffect(() => { loadDeep(); }, [name]);
  const Loaded = deep.value.views[name];
  if (Loaded) return html`<${Loaded} />`;
  return html`<${Notice} found=${{ error: deep.value.problem && new Error(deep.value.problem),
    loading: true, value: null }} what="the view" />`;
}

const SHOWN = { runs: Runs, overview: Overview, findings: Findings, curves: Curves, logs: Logs };

function App() {
  const wanted = VIEWS.find((each) => each.id === view.value);
  const shown = wanted.run && !run.value ? "runs" : wanted.id;
  const about = runAnswer.value.value;
  const worst = ["error", "warning"].find((each) => each === about?.severity);
  const alert = about?.state === "crashed" ? "crashed" : worst;
  useEffect(() => {
    document.title = run.value
      ? `${alert ? `${sign(alert)} ` : ""}${run.value} · ${wanted.title} · mothtrap` : "Runs · mothtrap";
  }, [run.value, shown, alert]);
  return html`<${Header} />
    <main id="main" class=${shown}><${SHOWN[shown] ?? Deep} name=${shown}
      key=${`${shown} ${run.value}`} /></main>
    <div class="hidden" aria-live="polite">${spoken.value}</div>
    <${Help} />`;
}

document.addEventListener("keydown", onKey);
render(html`<${App} />`, document.getElementById("app"));
