/** Findings: what led to what, with evidence, the source line and what to try. */
import { useState } from "preact/hooks";
import { LineChart } from "../charts/line.js";
import { findingsAnswer, runAnswer, ticks, unitOf } from "../data.js";
import { hasStep, counted, markOf, moment, named, number, onset, quantity, rankOf, words } from "../format.js";
import { html } from "../html.js";
import { useActions } from "../keys.js";
import { Ask } from "../parts/ask.js";
import { Empty, Notice, heads, Scroll, useSeries } from "../parts/basics.js";
import { Command, copy } from "../parts/copy.js";
import { OpenInEditor } from "../parts/editor.js";
import { Evidence, layersOf, Prose, Said, SourceLines, Title, Where } from "../parts/finding.js";
import { Status } from "../parts/status.js";
import { change, inRun, run, toFinding, value } from "../state.js";

export function Findings() {
  const answer = findingsAnswer.value;
  const found = answer.value;
  const ordered = found ? found.stories.flatMap((story) => [story.root, ...story.effects]) : [];
  const known = [...new Set(ordered)];
  const chosen = known.includes(value("finding")) ? value("finding") : known[0];
  const go = (by) => {
    const place = Math.min(Math.max(known.indexOf(chosen) + by, 0), known.length - 1);
    if (known.length) change({ finding: known[place] });
  };
  useActions({ next: () => go(1), previous: () => go(-1) });
  if (!found) return html`<${Notice} found=${answer} what="the findings" />`;
  return html`<h1 class="hidden">Findings</h1>
    <div class="split">
      <div><${Stories} found=${found} chosen=${chosen} /><${Unjudged} found=${found} /></div>
      ${chosen ? html`<${Detail} told=${found.findings[chosen]} found=${found} key=${chosen} />`
        : html`<${Empty}>No findings. The evaluated rules are listed on the left.</${Empty}>`}
    </div>`;
}

function Stories({ found, chosen }) {
  if (!found.stories.length) return null;
  return html`<nav aria-label="Findings" class="stories"><ol>${found.stories.map((story) => html`
    <li key=${story.root}><${Entry} told=${found.findings[story.root]} chosen=${chosen} />
      ${story.effects.length > 0 && html`<ol aria-label="Led to">${story.effects.map((each) => html`
        <li key=${each}><${Entry} told=${found.findings[each]} chosen=${chosen} /></li>`)}</ol>`}
    </li>`)}</ol></nav>`;
}

function Entry({ told, chosen }) {
  const { finding } = told;
  return html`<a href=${toFinding(finding.fingerprint)}
      aria-current=${finding.fingerprint === chosen ? "true" : undefined}>
    <${Status} of=${finding.severity} quiet /> ${named(finding)}
    <small>${finding.code} · ${unitOf()} ${[...new Set(onset(finding))].map(number).join("–")}${
      finding.layers.length ? ` · ${layersOf(finding, 1)}` : ""}</small></a>`;
}

function Detail({ told, found }) {
  const { finding } = told;
  const by = (codes) => found.stories.flatMap((story) => [story.root, ...story.effects])
    .map((each) => found.findings[each].finding).filter((each) => codes.includes(each.code));
  return html`<article class="detail">
    <${Title} finding=${finding} level=${2} />
    <${Where} finding=${finding} />
    <${Marks} finding=${finding} mark=${found.marks[finding.fingerprint]} />
    <${Said} finding=${finding} />
    ${told.after && html`<p class="chain"><b>Lasted</b> ${told.after}</p>`}
    <${Chain} label="Caused by" findings=${by(finding.caused_by)} />
    <${Chain} label="Led to" findings=${by(finding.causes)} />
    ${finding.fixes.length > 0 && html`<h3>Fix</h3>
      <ol class="fixes">${finding.fixes.map((fix) => html`<li key=${fix}><${Prose} text=${fix} /></li>`)}</ol>`}
    <${Links} told=${told} />
    <${Ranks} ranks=${told.ranks} />
    ${!(told.ranks && told.chart.is_context) && html`<${EvidenceChart} told=${told} />`}
    ${finding.location && html`<h3>Source: <code>${finding.location}</code></h3>
      <${SourceLines} run=${run.value} fingerprint=${finding.fingerprint} />
      <${OpenInEditor} location=${finding.location} />`}
    ${finding.why && html`<h3>Why it matters</h3><p><${Prose} text=${finding.why} /></p>`}
    <h3>Numbers</h3>
    <p class="muted">${seenIn(finding)}; confidence ${finding.confidence}</p>
    <${Evidence} finding=${finding} />
    <${AboutRule} finding=${finding} rule=${told.rule} />
    <${Replayed} finding=${finding} />
    <h3>Continue in the terminal</h3>
    <${Commands} finding=${finding} />
  </article>`;
}

/** Labels that someone gave the finding, and buttons that add labels. */
function Marks({ finding, mark }) {
  const controls = runAnswer.value.value?.controls ?? [];
  const body = { finding: finding.fingerprint };
  const muted = mark?.kind === "muted" && (!mark.until_s || mark.until_s * 1000 > Date.now());
  if (!controls.includes("ack") && !mark) return null;
  return html`<p class="tools">
    ${mark && (mark.kind !== "muted" || muted) && html`<span class="muted">${mark.kind}${
      mark.by ? ` by ${mark.by}` : ""} ${moment(mark.at_s)}${
      muted && mark.until_s ? `, until ${moment(mark.until_s)}` : ""}${mark.note ? `: ${mark.note}` : ""}</span>`}
    ${controls.includes("ack") && mark?.kind !== "acknowledged" && html`
      <${Ask} what="ack" body=${body}>Acknowledge</${Ask}>`}
    ${controls.includes("mute") && !muted && html`<${Ask} what="mute" body=${{ ...body, hours: 8 }}>
      Mute for 8 hours</${Ask}> <${Ask} what="mute" body=${body}>Mute</${Ask}>`}
    ${controls.includes("unmute") && muted && html`<${Ask} what="unmute" body=${body}>Unmute</${Ask}>`}
  </p>`;
}

function seenIn(finding) {
  const until = finding.last_step > finding.step ? ` up to ${unitOf()} ${number(finding.last_step)}` : "";
  return `Observed in ${counted(finding.count, `captured ${unitOf()}`)}${until}, ` +
    `reported at ${unitOf()} ${number(finding.detected_step)}`;
}

function Chain({ label, findings }) {
  if (!findings.length) return null;
  return html`<p class="chain"><b>${label}</b> ${findings.map((each, place) => html`${place > 0 && ", "}
    <a href=${toFinding(each.fingerprint)}>${named(each)}</a>
    ${" "}(${unitOf()} ${number(each.step)})`)}</p>`;
}

/** The series that the rule evaluated, with its reference line. */
function EvidenceChart({ told }) {
  const { finding, chart } = told;
  const { curves } = chart;
  const steps = runAnswer.value.value?.steps ?? 0;
  const half = Math.max(50, Math.round(steps / 20), finding.last_step - finding.step + 10);
  const range = hasStep(finding) && steps > 4 * half
    ? { from: Math.max(0, finding.step - half), to: finding.step + half } : {};
  const answer = useSeries({ name: curves, px: 600, worker: rankOf(finding), ...range }, ticks.finding.value);
  if (!curves.length) return null;
  const marks = [markOf(finding)];
  const values = answer.value?.curves ?? [];
  const positive = values.length > 0 && values.every((curve) => curve.min.every((each) => !(each <= 0)));
  const title = chart.title || [...new Set(curves.map(quantity))].join(", ");
  return html`<h3>${chart.is_context ? `No curve shows this fault; for orientation: ${title}` : title}</h3>
    <${Notice} found=${answer} what="the evidence" />
    ${answer.value && html`<${LineChart} curves=${values} gaps=${runAnswer.value.value?.gaps} title=${named(finding)} marks=${marks}
      at=${finding.step} scale=${positive && chart.scale !== "linear" ? "log" : "linear"} height=${220} lines=${chart.lines} />
      <p><a href=${inRun("curves", { name: curves, at: finding.step, ...range })}>
        Open in Curves</a></p>`}`;
}

const MOST_STEPS = 24;

/** Which ranks have equal weights, at the compared steps around the first difference. */
function Ranks({ ranks }) {
  if (!ranks) return null;
  const differs = ranks.steps.map((_, place) => new Set(ranks.groups.map((row) => row[place])
    .filter((group) => group !== null)).size > 1);
  const first = Math.max(0, differs.indexOf(true) - MOST_STEPS / 2);
  const places = ranks.steps.map((_, place) => place).slice(first, first + MOST_STEPS);
  const shown = (group) => (group === null ? "" : String.fromCharCode(65 + group));
  return html`<h3>Weights of <code>${ranks.layer}</code> on each rank</h3>
    <p class="muted">Equal letters mean bit-identical weights. ${number(ranks.steps.length)} steps were compared.</p>
    <${Scroll} label="Weights on each rank"><table class="ranks">
      <thead><tr>${heads(["Step", ...places.map((place) => number(ranks.steps[place]))])}</tr></thead>
      <tbody>${ranks.workers.map((worker, row) => html`<tr key=${worker}><th scope="row">rank ${worker}</th>
        ${places.map((place) => html`<td key=${place} class=${ranks.groups[row][place] ? "differs" : ""}>${
          shown(ranks.groups[row][place])}</td>`)}</tr>`)}</tbody></table></${Scroll}>`;
}

/** Links from a finding to its layer, its tensor, and its samples. */
function Links({ told }) {
  const { finding, tensor } = told;
  const about = runAnswer.value.value;
  const at = hasStep(finding) ? finding.step : null;
  const [kind, name] = [tensor.slice(0, tensor.indexOf(":")), tensor.slice(tensor.indexOf(":") + 1)];
  const training = at !== null && finding.mode === "train";
  return html`<p class="actions">
    ${tensor && html`<a class="button" href=${inRun("layers", { kind, row: name, query: name, at })}>
        Show in Layers</a>
      <a class="button" href=${inRun("tensors", { tensor, at })}>Open tensor ${name}</a>`}
    ${training && about?.views.includes("samples") && html`<a class="button"
      href=${inRun("samples", { at })}>Samples of step ${number(at)}</a>`}
    ${told.rule && html`<button onClick=${openRule}>About rule ${finding.code}</button>`}</p>`;
}

function openRule() {
  const fold = document.getElementById("about-rule");
  fold.open = true;
  fold.querySelector("summary").focus();
  fold.scrollIntoView();
}

/** What a rule looks for, from its documentation. */
function AboutRule({ finding, rule }) {
  if (!rule) return null;
  const parts = [["Detects", rule.detects], ["Fires", rule.fires], ["Stays quiet", rule.quiet]];
  return html`<details id="about-rule" class="fold"><summary>About rule ${finding.code}</summary>
    <p>${rule.summary}</p>
    ${parts.filter(([, text]) => text).map(([title, text]) => html`<p key=${title}><b>${title}.</b>
      ${" "}<${Prose} text=${text} /></p>`)}</details>`;
}

/** What a replay of the step found, and how to check a change of the script. */
function Replayed({ finding }) {
  const about = runAnswer.value.value;
  if (!about?.replay || finding.step !== Number(stepOf(about.replay))) return null;
  return html`<h3>Replay</h3>
    ${about.replayed.length > 0 && html`<pre>${about.replayed.join("\n")}</pre>`}
    <p><b>Check my change:</b> edit the script, then run the command again. It says whether step
      ${" "}${stepOf(about.replay)} is finite now, and this page shows the result.</p>`;
}

function Commands({ finding }) {
  const about = runAnswer.value.value;
  const [copied, setCopied] = useState(false);
  if (!about) return null;
  const again = about.replay ? `mothtrap replay ${about.called} --step ${stepOf(about.replay)}` : "";
  return html`<ul class="commands">
    ${again && html`<li><${Command} text=${again} label="Copy replay" /></li>
      <li><${Command} text=${`${again} --as-test`} label="Copy as test" /></li>`}
    <li><${Command} text=${`mothtrap rule ${finding.code}`} /></li>
    <li><button onClick=${async () => setCopied(await copy(asIssue(finding, about), "Issue"))}>
      ${copied ? "Copied" : "Copy as issue"}</button></li></ul>`;
}

const stepOf = (command) => command.match(/--step (\d+)/)?.[1] ?? "";

/** A finding as Markdown for an issue. */
function asIssue(finding, about) {
  const since = hasStep(finding) ? ` since step ${finding.step}` : "";
  return [`## ${named(finding)}${since} (${finding.code})`, "",
    finding.message, "", finding.layers.length ? `- layers: ${finding.layers.join(", ")}` : null,
    finding.location ? `- location: \`${finding.location}\`` : null, `- run: ${about.id}`,
    `- command: \`${about.command}\``, about.commit ? `- commit: ${about.commit}` : null, "",
    "Fix:", ...finding.fixes.map((fix, place) => `${place + 1}. ${fix}`),
  ].filter((line) => line !== null).join("\n");
}

const FOLDS = [["rule_failed", "failed"], ["not_enough_data", "need more data", "needs more data"],
  ["not_applicable", "not applicable"], ["ok", "ok"]];

function Unjudged({ found }) {
  return html`<h2 class="small">Rules</h2>
    ${!found.rules.length && html`<${Empty}>No rule has been evaluated yet.</${Empty}>`}
    ${FOLDS.map(([state, label, singular = label]) => {
      const rules = found.rules.filter((rule) => rule.state === state);
      return rules.length > 0 && html`<details key=${state} class="fold">
        <summary><${Status} of=${state} quiet /> ${rules.length} ${
          rules.length === 1 ? singular : label}</summary>
        <ul>${rules.map((rule) => html`<li key=${rule.code}><b>${rule.code}</b> ${words(rule.name)}${
          rule.reason ? html`<small>${rule.reason}</small>` : ""}</li>`)}</ul></details>`;
    })}`;
}
