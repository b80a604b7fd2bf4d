/** Start of the page: it shows the view that the address names. */
import { render } from "preact";
import { useEffect } from "preact/hooks";
import { runAnswer } from "./data.js";
import { html } from "./html.js";
import { onKey } from "./keys.js";
import { Deep, loader } from "./parts/deep.js";
import { Header } from "./parts/header.js";
import { Help } from "./parts/help.js";
import { sign } from "./parts/status.js";
import { VIEWS, run, spoken, view } from "./state.js";
import { Findings } from "./views/findings.js";
import { Overview } from "./views/overview.js";
import { Runs } from "./views/runs.js";

loader.load = () => Promise.all([import("./views/deep.js"), sheet("./views/deep.css")])
  .then(([{ DEEP }]) => DEEP);

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

const SHOWN = { runs: Runs, overview: Overview, findings: Findings };

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
