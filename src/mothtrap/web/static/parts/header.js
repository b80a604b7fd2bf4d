/** The head of every view: the run, whether it is alive, and links to the other views. */
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { connection, problems, runAnswer, seen } from "../data.js";
import { counted, duration, number } from "../format.js";
import { html } from "../html.js";
import { help, href, run, view, viewsOf } from "../state.js";
import { Alerts } from "./alerts.js";
import { Ask } from "./ask.js";
import { Status } from "./status.js";
import { Theme } from "./theme.js";
import { watchedSteps } from "./watched.js";

/** The step before which the workers have agreed to stop, if they have agreed. */
const stopping = signal(null);

export function Header() {
  const known = viewsOf(runAnswer.value.value?.views);
  const count = problems().length;
  const worst = problems().some((each) => each.severity === "error") ? "error" : "warning";
  return html`<header>
    <div class="bar">
      <a class="brand" href=${href("runs")}><img src="./icon.svg" alt="" width="22" height="22" />
        mothtrap</a>
      ${run.value && html`<${Alive} /><${Alerts} />`}
      <${Theme} />
      <button class="plain" onClick=${() => { help.value = true; }} aria-haspopup="dialog">
        Keys <kbd>?</kbd></button>
    </div>
    <nav aria-label="Views">${known.map((each) => html`<a key=${each.id}
        href=${href(each.id, each.run ? { run: run.value } : {})}
        aria-current=${each.id === view.value ? "page" : undefined}>
      ${each.title}${each.id === "findings" && count ? html` <span class="count ${worst}">${count}</span>` : ""}</a>`)}
    </nav>
    <${Connection} />
  </header>`;
}

/** State, step, pace and the age of the last step; keeps counting between two events. */
function Alive() {
  const [, tick] = useState(0);
  const about = runAnswer.value.value;
  const state = seen.value?.state || about?.state;
  useEffect(() => {
    if (state !== "running") return () => {};
    const timer = setInterval(() => tick((before) => before + 1), 1000);
    return () => clearInterval(timer);
  }, [state]);
  if (!about) return html`<strong class="name">${run.value}</strong>`;
  const now = seen.value?.steps ? { ...about, ...seen.value } : about;
  const age = now.now_s - now.active_s + (now.heard ? (performance.now() - now.heard) / 1000 : 0);
  const added = about.cost ? duration(about.overhead.added_seconds) : "";
  return html`<strong class="name" title=${about.path}>${run.value}</strong>
    <${Status} of=${now.state} word=${now.state === "running" ? "" : about.ending} />
    <span>${about.probed || about.served ? about.size : now.state === "running"
      ? `${about.unit} ${number(now.steps)}` : counted(now.steps, about.unit)}</span>
    ${about.gaps.length > 0 && html`<span class="muted"
      title="The other steps were not observed: observing every step would exceed the overhead budget.">
      watched ${number(watchedSteps(about))} of ${number(about.steps)}</span>`}
    ${now.state === "running" && now.rate > 0 && html`<span>${number(Number(now.rate.toPrecision(2)))} ${about.unit}s/s</span>`}
    ${now.state === "running" && now.active_s > 0 && html`<span>last ${about.unit} ${duration(age)} ago</span>`}
    ${added && html`<span class="muted" title=${about.cost}>mothtrap added ${added}</span>`}
    <${Job} about=${about} state=${now.state} />`;
}

/** Requests to the job: a snapshot, and its end, which is requested, then agreed on, then reached. */
function Job({ about, state }) {
  const agreed = stopping.value?.run === run.value ? stopping.value.message : "";
  if (state !== "running") {
    return agreed && html`<span role="status">stop: requested ✔ agreed ✔ ended ✔</span>`;
  }
  if (agreed) return html`<span role="status">stop: requested ✔ agreed ✔ ${agreed} …</span>`;
  return html`${about.controls.includes("snapshot") && html`<${Ask} what="snapshot" body=${{}} shows>Snapshot</${Ask}>`}
    ${about.controls.includes("stop") && html`<${Ask} what="stop" body=${{}} sure="Stop the job now?"
      waits="Stop requested …" done=${(answer) => { stopping.value = { run: run.value, message: answer.message }; }}>
      Stop</${Ask}>`}`;
}

function Connection() {
  const said = { lost: "The server does not answer. The page reconnects automatically.", gone: seen.value?.problem };
  return said[connection.value] && html`<p class="problem" role="alert">${said[connection.value]}</p>`;
}
