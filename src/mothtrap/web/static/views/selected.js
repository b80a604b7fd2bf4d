/** Selected runs: one scalar of all of them, colored or joined by a parameter, and actions for all of them. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { cividis, runColor, seriesColor } from "../charts/colors.js";
import { groupsOf, joinedCurves } from "../charts/groups.js";
import { LineChart } from "../charts/line.js";
import { source, ticks } from "../data.js";
import { counted } from "../format.js";
import { html } from "../html.js";
import { Notice, useAnswer, useKept } from "../parts/basics.js";
import { Pick, PickRange } from "../parts/choices.js";
import { change, href, spoken, value } from "../state.js";

/** With this many curves, the outliers of one curve would hide the others. */
const MANY = 20;

export function Compared({ names }) {
  const scalar = value("scalar", "train/loss");
  const scale = value("scale", "linear");
  const range = value("range", names.length > MANY ? "robust" : "all");
  const answer = useAnswer((signal) => source.compare(names, scalar, names.length > MANY ? 300 : 800, signal),
    `${scalar} ${names.join(" ")}`, ticks.runs.value);
  const found = useKept(answer.value, scalar);
  const curves = useMemo(() => (found?.curves ?? []).filter((curve) => curve.count), [found]);
  const parameters = useMemo(() => [...new Set(curves.flatMap((curve) => Object.keys(curve.parameters)))].sort(), [curves]);
  const by = parameters.includes(value("color")) ? value("color") : "";
  const group = value("group") === "seed" || parameters.includes(value("group")) ? value("group") : "";
  const shown = useMemo(() => (group ? joinedCurves(curves, groupsOf(curves, group)) : curves), [curves, group]);
  const scheme = useMemo(() => colorsBy(shown, by), [shown, by]);
  const lacking = (found?.curves ?? []).length - curves.length;
  return html`<section class="compared" aria-label="Selected runs">
    <p class="tools"><label>Scalar <input value=${scalar} list="scalars"
        onChange=${(event) => change({ scalar: event.target.value })} /></label>
      <datalist id="scalars"><option value="train/loss" /><option value="eval/loss" /><option value="train/lr" />
        <option value="train/step_s" /></datalist>
      <${Pick} label="y" name="scale" now=${scale} choices=${["linear", "log", "symlog"]} />
      <${PickRange} now=${range} />
      ${parameters.length > 0 && html`
        <${Pick} label="color by" name="color" now=${by} choices=${[["", "run"], ...parameters.map((each) => [each, each])]} />
        <${Pick} label="mean of" name="group" now=${group} choices=${[["", "each run alone"],
          ["seed", "runs that differ in the seed"], ...parameters.map((each) => [each, `runs with the same ${each}`])]} />`}
      <button onClick=${() => change({ tick: null })}>Clear selection</button>
      ${names.length > 1 && html`<a class="button" href=${href("compare", { run: names[0],
        with: names.slice(1, 5) })}>Compare selected</a>`}</p>
    <${Bulk} names=${names} />
    <${Notice} found=${{ ...answer, value: found }} what="the curves" />
    ${shown.length > 0 && html`<${LineChart} curves=${shown} colors=${scheme.colors} scale=${scale} robust=${range === "robust"}
      title=${`${scalar} of ${counted(curves.length, "run")}`} height=${320} legend=${shown.length <= 12} near=${shown.length > 1} />`}
    ${by && html`<ul class="legend">${scheme.key.map(([text, color]) => html`<li key=${text}>
      <i style=${{ background: color }}></i>${by} ${text}</li>`)}</ul>`}
    ${lacking > 0 && html`<p class="muted">${counted(lacking, "run")} without ${scalar}.</p>`}
  </section>`;
}

/** Labels all selected runs, or deletes them. */
function Bulk({ names }) {
  const [text, setText] = useState("");
  const [said, setSaid] = useState({ text: "", bad: false });
  const [asked, setAsked] = useState(false);
  const act = async (what, body, done) => {
    setAsked(false);
    setSaid({ text: `Changing ${counted(names.length, "run")} …`, bad: false });
    let count = 0;
    try {
      for (; count < names.length; count += 1) await source.control(names[count], what, body(names[count]));
      setSaid({ text: `${done}: ${counted(count, "run")}.`, bad: false });
    } catch (error) {
      setSaid({ text: `${names[count]}: ${error.message} (${count} of ${names.length} done)`, bad: true });
    }
    ticks.runs.value += 1;
    spoken.value = `${counted(count, "run")} changed`;
    return names.slice(0, count);
  };
  const label = (what, done) => () => act(what, () => (what === "archive" ? {} : { text }), done);
  const remove = async () => {
    const gone = await act("delete", (name) => ({ name }), "Deleted");
    change({ tick: names.filter((name) => !gone.includes(name)) });
  };
  return html`<p class="tools"><span class="muted">${counted(names.length, "selected run")}:</span>
    <label>Text <input value=${text} maxlength="200" onInput=${(event) => setText(event.target.value)} /></label>
    <button disabled=${!text} onClick=${label("tag", "Tagged")}>Tag</button>
    <button disabled=${!text} onClick=${label("group", "Grouped")}>Group</button>
    <button onClick=${label("archive", "Archived")}>Archive</button>
    <button aria-expanded=${asked} onClick=${() => setAsked(!asked)}>Delete …</button>
    <span role="status" class=${said.bad ? "problem" : "muted"}>${said.text}</span></p>
    ${asked && html`<${Sure} names=${names} remove=${remove} leave=${() => setAsked(false)} />`}`;
}

const NAMED = 10;

/** The question before runs are deleted: which, and that they cannot be restored. */
function Sure({ names, remove, leave }) {
  const more = names.length - NAMED;
  const keep = useRef(/** @type {HTMLButtonElement | null} */ (null));
  useEffect(() => keep.current?.focus(), []);
  return html`<section class="sure" role="alertdialog" aria-label="Delete the selected runs">
    <p><strong>Delete ${counted(names.length, "run")} from the disk?</strong> You cannot undo this.
      To hide runs and keep their files, archive them.</p>
    <ul>${names.slice(0, NAMED).map((name) => html`<li key=${name}><code>${name}</code></li>`)}
      ${more > 0 && html`<li>and ${more} more</li>`}</ul>
    <p class="tools"><button class="danger" onClick=${remove}>Delete ${counted(names.length, "run")}</button>
      <button ref=${keep} onClick=${leave}>Keep them</button></p></section>`;
}

const KEYS = 8;

/** A color for each curve, by a parameter of its run: numbers get a scale, words get hues.
 * @param {any[]} curves @param {string} by */
export function colorsBy(curves, by) {
  const names = curves.map((curve) => curve.name);
  if (!by) return { colors: names.map((name) => runColor(name, names)), key: [] };
  const of = (curve) => curve.parameters[by] ?? "not set";
  const texts = [...new Set(curves.map(of))].sort((a, b) => Number(a) - Number(b) || a.localeCompare(b));
  const numbers = texts.filter((text) => text !== "" && Number.isFinite(Number(text)));
  const known = new Map(texts.map((text, place) => [text, seriesColor(place)]));
  if (numbers.length > 1) {
    numbers.forEach((text, place) => {
      const share = place / (numbers.length - 1);
      known.set(text, cividis(share));
    });
  }
  const every = Math.max(1, (texts.length - 1) / (KEYS - 1));
  const shown = texts.length <= KEYS ? texts
    : Array.from({ length: KEYS }, (_, place) => texts[Math.round(place * every)]);
  return { colors: curves.map((curve) => known.get(of(curve))),
    key: shown.map((text) => [text, known.get(text)]) };
}
