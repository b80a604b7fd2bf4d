/** Overview: what is wrong, since when, where, and what to do; readable in ten seconds. */
import { LineChart } from "../charts/line.js";
import { isSpread } from "../charts/scale.js";
import { Spark } from "../charts/spark.js";
import { findingsAnswer, runAnswer, ticks } from "../data.js";
import { capital, counted, duration, hasStep, markOf, moment, named, number, quantity, rankOf } from "../format.js";
import { html } from "../html.js";
import { Empty, heads, Notice, Scroll, useJson, useSeries } from "../parts/basics.js";
import { Command } from "../parts/copy.js";
import { watchedSteps } from "../parts/watched.js";
import { Prose, Said, Title, Where } from "../parts/finding.js";
import { Status } from "../parts/status.js";
import { inRun, toFinding } from "../state.js";

const AROUND = 40;
const LAST_LINES = 8;

export function Overview() {
  const about = runAnswer.value;
  const found = findingsAnswer.value;
  if (!about.value || !found.value) {
    return html`<${Notice} found=${about.error ? about : found} what="the run" />`;
  }
  return html`<${Verdict} about=${about.value} found=${found.value} />
    <div class="columns">
      <div><${Traceback} about=${about.value} />
        ${about.value.state === "crashed" && html`<${OutputEnd} traceback=${about.value.traceback} />`}
        ${!about.value.probed && !about.value.served && html`<${Loss} about=${about.value} found=${found.value} />`}
        <${Worst} found=${found.value} unit=${about.value.unit} /><${Workers} crew=${about.value.crew} /><${Facts} about=${about.value} /></div>
      <div><${Rules} found=${found.value} /><${Machine} rows=${about.value.machine} /></div>
    </div>`;
}

/** The stories with a severity above note. */
export const bad = (found) => found.stories.filter((story) => story.severity !== "info");

function Verdict({ about, found }) {
  const [first, ...others] = bad(found);
  if (!first || about.crash_leads) return html`<${Outcome} about=${about} found=${found} />`;
  const { finding, line, chart } = found.findings[first.root];
  const effects = first.effects.map((each) => found.findings[each].finding);
  const at = { from: Math.max(0, finding.step - AROUND), to: finding.step + AROUND,
    at: finding.step, name: chart.curves };
  return html`<section class="verdict ${first.severity}" aria-label="Verdict">
    <${Title} finding=${finding} severity=${first.severity} level=${1} />
    <${Said} finding=${finding} />
    <${Where} finding=${finding} sure />
    <${Watched} about=${about} after=${found.findings[first.root].after} />
    ${line && html`<pre class="at"><code>${line}</code></pre>`}
    ${finding.fixes.length > 0 && html`<p class="try"><b>Fix</b> <${Prose} text=${finding.fixes[0]} /></p>`}
    ${effects.length > 0 && html`<p class="muted">Led to: ${effects.slice(0, 5).map((each, place) => html`
      ${place > 0 && ", "}<a href=${toFinding(each.fingerprint)}>
        ${named(each)}</a> (${about.unit} ${number(each.step)})`)}${
        effects.length > 5 ? ` and ${effects.length - 5} more` : ""}</p>`}
    <${Ending} about=${about} /><${Guarded} about=${about} />
    <p class="actions">
      <a class="button first" href=${toFinding(first.root)}>
        ${finding.location ? "Explanation and source line" : "Explanation"}</a>
      ${hasStep(finding) && !chart.is_context && html`
        <a class="button" href=${inRun("curves", at)}>Show the first bad ${about.unit}</a>`}
      <${Next} about=${about} />
    </p>
    <${Others} of=${others} found=${found} unit=${about.unit} />
  </section>`;
}

/** The problems that are not at the head of the verdict, one per line. */
function Others({ of, found, unit }) {
  return of.length > 0 && html`<h2 class="small">Other problems</h2>
    <ul class="others">${of.slice(0, 4).map(({ root, severity }) => {
      const { finding } = found.findings[root];
      return html`<li key=${root}><a href=${toFinding(root)}>
          <${Status} of=${severity} quiet /> ${named(finding)}</a>
        ${hasStep(finding) && ` since ${unit} ${number(finding.step)}`}${
          finding.workers.some((each) => each > 0) ? ` on rank ${finding.workers.join(", ")}` : ""}: ${finding.message}</li>`;
    })}${of.length > 4 && html`<li><a href=${inRun("findings")}>
      and ${of.length - 4} more</a></li>`}</ul>`;
}

/** The verdict on a run without problems, or on a crash, which is worse than a warning. */
function Outcome({ about, found }) {
  const sign = about.state === "crashed" ? "crashed" : about.steps ? "ok" : "not_enough_data";
  const problems = bad(found);
  const notes = found.stories.length - problems.length;
  const [title, more] = headed(about, problems.length);
  return html`<section class="verdict ${sign}" aria-label="Verdict">
    <h1><${Status} of=${sign} quiet /> ${title}</h1>
    ${about.failures.length === 0 && more && html`<p class="said sentence">${more}</p>`}
    <${Watched} about=${about} /><${Ending} about=${about} /><${Guarded} about=${about} />
    <p class="actions"><${Next} about=${about} />
      ${notes > 0 && html`<a class="button" href=${inRun("findings")}>
        ${counted(notes, "note")}</a>`}</p>
    <${Others} of=${problems} found=${found} unit=${about.unit} />
  </section>`;
}

/** The head of a verdict and the rest: "(45 rules ok)" is not part of the heading. */
function headed(about, isBad) {
  if (about.state === "crashed") {
    return [`The job crashed${after(about)}`, isBad ? about.end_of_job : about.verdict];
  }
  const [, head, rest, end] = /^([^(;]+?)(?: \((.*)\))?(;.*?)?\.?$/s.exec(about.verdict) ?? [];
  return /^(Nothing|Waiting)/.test(head ?? "") && head.length < 60 ? [head, rest && `${rest}${end ?? ""}.`]
    : [about.steps ? "Nothing wrong was found" : "Nothing was observed", about.verdict];
}

const after = (about) => (about.steps ? ` after ${counted(about.steps, about.unit)}` : "");

/** The exceptions that ended the script. */
function Ending({ about }) {
  return about.failures.slice(0, 2).map((each) => html`<div class="failure" key=${each.error}>
    <p><${Status} of="crashed" quiet /> Step ${number(each.step)}: <code>${each.error}</code></p>
    <p><${Prose} text=${each.sentence} /></p>
    ${each.location && html`<p>at <code>${each.location}</code></p>`}
    ${each.location in about.failed_lines && html`<pre class="at"><code>${about.failed_lines[each.location]}</code></pre>`}
    ${each.fixes.length > 0 && html`<p class="try"><b>Fix</b> <${Prose} text=${capital(each.fixes[0])} /></p>`}</div>`);
}

/** How long the fault lasted, and how much of the run was watched. */
function Watched({ about, after = "" }) {
  const lasted = after && html`Lasted ${after}. `;
  if (!about.gaps.length) {
    const watched = about.steps > 0 && !about.probed && !about.served
      && `Watched all ${counted(about.steps, about.unit)}.`;
    return (lasted || watched) && html`<p class="muted">${lasted}${watched}</p>`;
  }
  return html`<p>${lasted}Watched ${number(watchedSteps(about))} of ${counted(about.steps, about.unit)}: the others were too
    short to observe within the overhead budget.</p>`;
}

/** What the guard did with faulty steps. */
function Guarded({ about }) {
  return about.guarded.map((line) => html`<p class="sentence" key=${line}>${line}</p>`);
}

/** What Python printed when an exception ended the script. */
function Traceback({ about }) {
  return about.traceback && html`<section><h2>Traceback</h2>
    <${Scroll} label="Traceback"><pre class="source plain"><code>${
      about.traceback.trimEnd()}</code></pre></${Scroll}></section>`;
}

/** The last lines that the job wrote, which explain a crash best. */
function OutputEnd({ traceback }) {
  const found = useJson("logs", { after: -1, lines: LAST_LINES });
  const isKnown = (line) => traceback?.includes(line.trim()) || line.startsWith("mothtrap:");
  if (!found.value?.lines.length || found.value.lines.every(isKnown)) return null;
  return html`<section><h2>End of the output</h2>
    <${Scroll} label="End of the output"><pre class="source plain"><code>${
      found.value.lines.join("\n")}</code></pre></${Scroll}>
    <p><a href=${inRun("logs")}>All lines</a></p></section>`;
}

const DEBUG = "python -m pdb -c continue ";

/** The next command: a replay; for a crash without a replay, the debugger at the exception. */
function Next({ about }) {
  const plain = about.state === "crashed" && about.workers.length < 2 && /^python [^-]\S*\.py( |$)/.test(about.command);
  const text = about.replay || (plain ? about.command.replace("python ", DEBUG) : `mothtrap show ${about.called}`);
  return html`<${Command} text=${text} label=${about.replay ? "Copy replay" : plain ? "Copy debug command" : "Copy"} />`;
}

function Loss({ about, found }) {
  const names = about.losses.slice(0, 8);
  const [first] = bad(found);
  const worker = first ? rankOf(found.findings[first.root].finding) : null;
  const answer = useSeries({ name: names, px: 1000, worker });
  const marks = bad(found).flatMap((story) => [story.root, ...story.effects]).slice(0, 12).map((each) => markOf(found.findings[each].finding));
  if (about.state === "crashed" && about.steps) {
    marks.push({ step: about.steps - 1, until: about.steps - 1, severity: "crashed", label: "crash" });
  }
  const title = names.length && !names[0].includes("/loss") ? "Metrics" : "Loss";
  return html`<section><h2>${title}${about.workers.length > 1 ? ` of rank ${worker ?? about.workers[0]}` : ""}</h2>
    ${!names.length && html`<${Empty}>${!about.steps ? `The job completed no ${about.unit}s.` : html`No loss was recorded yet.
      With <code>mothtrap.watch</code>, pass it: <code>dbg.step(loss=loss)</code>.`}</${Empty}>`}
    <${Notice} found=${answer} what="the loss" />
    ${answer.value && html`<${LineChart} curves=${answer.value.curves} gaps=${runAnswer.value.value?.gaps} title=${title} marks=${marks}
      scale=${isSpread(answer.value.curves) ? "log" : "linear"} height=${300} />`}
  </section>`;
}

const STATES = ["ok", "warning", "error", "not_enough_data", "not_applicable", "rule_failed"];
const COUNTED = {
  error: (count) => (count === 1 ? "error" : "errors"), warning: (count) => (count === 1 ? "warning" : "warnings"),
  not_enough_data: (count) => (count === 1 ? "needs more data" : "need more data"),
};
const FAMILIES = { NUM: "Numerics", GRD: "Gradients", ACT: "Activations", WGT: "Weights", LOS: "Loss",
  DAT: "Data", OPT: "Optimizer", STR: "Structure", DST: "Ranks", RUN: "Run", SYS: "Speed",
  TRE: "Trees", EST: "Estimators", BEH: "Behavior" };

function Rules({ found }) {
  const families = new Map();
  for (const rule of found.rules.filter((each) => each.state !== "not_applicable")) {
    const family = rule.code.slice(0, 3);
    if (!families.has(family)) families.set(family, {});
    const counts = families.get(family);
    counts[rule.state] = (counts[rule.state] ?? 0) + 1;
  }
  const ruled = (state) => found.rules.filter((rule) => rule.state === state).length;
  const told = STATES.filter((state) => state !== "not_applicable" && ruled(state));
  return html`<section><h2>Rules</h2>
    ${!found.rules.length ? html`<${Empty}>No rule has been evaluated yet.</${Empty}>` : html`
    <p>${told.map((state, place) => html`${place > 0 && " · "}<span class="state" key=${state}><${Status} of=${state} word=${
      `${number(ruled(state))} ${COUNTED[state]?.(ruled(state)) ?? state.replaceAll("_", " ")}`} /></span>`)}</p>
    <details><summary>By family</summary><table class="rules"><thead><tr><th scope="col">Family</th>${STATES.map((state) =>
      html`<th scope="col" key=${state}><${Status} of=${state} quiet /></th>`)}</tr></thead>
    <tbody>${[...families].map(([family, counts]) => html`<tr key=${family}>
      <th scope="row">${FAMILIES[family] ?? family}</th>${STATES.map((state) =>
        html`<td key=${state} class=${counts[state] ? state : "none"}>${counts[state] ?? "·"}</td>`)}
      </tr>`)}</tbody></table>
    <p class="muted key">${STATES.map((state) => html`<${Status} of=${state} key=${state} /> `)}</p></details>`}
  </section>`;
}

function Worst({ found, unit }) {
  const rows = found.worst;
  const names = [...new Set(rows.map((row) => row.curve).filter(Boolean))];
  const answer = useSeries({ name: names, px: 120 }, ticks.finding.value);
  const curves = new Map((answer.value?.curves ?? []).map((curve) => [curve.name, curve]));
  if (!rows.length) return null;
  return html`<section><h2>${unit === "round" ? "Worst features" : "Worst layers"}</h2>
    <table class="worst"><thead><tr>${heads(["Layer", ...(names.length ? ["Curve", "Last value"] : []), "Finding"])}</tr></thead>
      <tbody>${rows.map((row) => {
        const curve = curves.get(row.curve);
        const { finding } = found.findings[row.fingerprint];
        return html`<tr key=${row.layer}>
          <th scope="row"><a title=${row.layer} href=${row.curve ? inRun("curves", { name: row.curve, at: finding.step }) : toFinding(row.fingerprint)}>${
            row.layer}</a></th>
          ${names.length > 0 && html`<td><${Spark} curve=${curve} mark=${finding.step} /></td>
          <td class="number ${curve && !Number.isFinite(lastOf(curve)) ? "nonfinite" : ""}">${
            curve ? number(lastOf(curve)) : ""}</td>`}
          <td><a href=${toFinding(row.fingerprint)}>
            <${Status} of=${row.severity} quiet /> ${row.code}</a></td></tr>`;
      })}</tbody></table>
    ${names.length > 0 && html`<p class="muted">${[...new Set(names.map(quantity))].join(", ")
      }; the red line marks the first bad ${unit}</p>`}
  </section>`;
}

/** The last value of a curve; NaN if the last bucket has no number. */
const lastOf = (curve) => (curve.count ? curve.last[curve.count - 1] : NaN);
/** The job's use of its machine. */
function Machine({ rows }) {
  if (!rows.length) return null;
  return html`<section><h2>Machine</h2><table class="rules">
    <thead><tr>${heads(["Measure", "Last", "Median", "Highest"])}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.what}><th scope="row">${row.what}</th>
      <td>${row.last}</td><td>${row.median}</td><td>${row.most}</td></tr>`)}</tbody></table></section>`;
}

/** The workers of a job with several: their number, then a list with troubled workers first. */
function Workers({ crew }) {
  if (!crew) return null;
  return html`<section><h2>Workers</h2><p>${crew.coverage}</p>
    <${Scroll} label="Table of workers"><table class="rules crew">
    <thead><tr>${heads(crew.head)}</tr></thead>
    <tbody>${crew.rows.map(([rank, ...cells]) => html`<tr key=${rank}><th scope="row">${rank}</th>
      ${cells.map((cell, place) => html`<td key=${place}>${cell}</td>`)}</tr>`)}</tbody></table></${Scroll}>
    ${crew.left_out > 0 && html`<p class="muted">${counted(crew.left_out, "worker")} more: <code>mothtrap
      workers</code></p>`}</section>`;
}

function Facts({ about }) {
  const took = (about.ended_s || about.active_s) - about.started_s;
  const rows = {
    Kind: about.kind === "train" ? "" : about.kind, Command: about.command, Folder: about.cwd, Started: moment(about.started_s),
    Duration: took > 0 ? duration(took) : "", Host: about.host, Commit: about.commit,
    Ranks: about.workers.length > 1 ? String(about.workers.length) : "",
    Attempts: about.attempts > 1 ? String(about.attempts) : "", Python: about.python,
    Time: about.time,
    Overhead: about.cost,
  };
  return html`<section><h2>Run</h2>
    <dl class="facts">${Object.entries(rows).filter(([, text]) => text).map(([name, text]) =>
      html`<div key=${name}><dt>${name}</dt><dd>${text}</dd></div>`)}</dl>
    ${about.notes.length > 0 && html`<details><summary>${counted(about.notes.length, "part")}
      not observed, not stored, or damaged</summary>
      <ul>${about.notes.map((note) => html`<li key=${note}>${note}</li>`)}</ul></details>`}
  </section>`;
}
