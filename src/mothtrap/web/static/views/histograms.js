/** Histograms: all tensors of up to five runs, each a small chart that is read when it comes into sight. */
import { useEffect, useRef, useState } from "preact/hooks";
import { runColor } from "../charts/colors.js";
import { rangeOf, Ridges } from "../charts/ridges.js";
import { runAnswer, slowly, source } from "../data.js";
import { counted, number, words } from "../format.js";
import { html } from "../html.js";
import { Empty, Notice, useAnswer, useNames } from "../parts/basics.js";
import { Pick, PickRank, Search } from "../parts/choices.js";
import { href, run, value } from "../state.js";
import { HowToCapture } from "./capture.js";
import { Choice, comparedRuns } from "./compare.js";
import { filtered } from "./curves.js";
import { Sign } from "./layers.js";

const MOST = 1000;
const AT_ONCE = 12;

export function Histograms() {
  const names = useNames();
  const runs = comparedRuns();
  const by = value("group", "kind");
  if (!names.value) return html`<${Notice} found=${names} what="the names" />`;
  const kinds = Object.entries(names.value.histograms);
  const tensors = kinds.flatMap(([kind, layers]) => filtered(Object.keys(layers), value("query")).map((name) => (
    { id: `${kind}:${name}`, kind, name, layer: layers[name] || name })));
  return html`<h1 class="hidden">Histograms</h1>
    <p class="tools"><${Pick} label="grouped by" name="group" now=${by} choices=${["kind", "layer"]} />
      <${PickRank} workers=${runAnswer.value.value?.workers} /><${Search} /></p>
    <details class="fold" open=${runs.length > 1}><summary>Other runs beside ${run.value}</summary>
      <${Choice} others=${runs.slice(1)} search="find" /></details>
    ${kinds.length ? html`<p class="muted">Each line is one of up to 12 captured steps, its height the share of the values at each power of two.
      ✖: some values are not finite. Click a chart to open its tensor.</p>`
      : html`<${Empty}>No histograms were captured.</${Empty}>
      <${HowToCapture} tensor="gradients" options="--statistic exponents" settings=${['statistics = ["exponents"]']} />`}
    <${Groups} tensors=${tensors.slice(0, MOST)} by=${by} runs=${runs} key=${JSON.stringify([runs, value("worker")])} />
    ${tensors.length > MOST && html`<p>${counted(tensors.length - MOST, "more tensor")}: search by name.</p>`}`;
}

function Groups({ tensors, by, runs }) {
  const [box, answer, known] = useInSight(runs, tensors.map((each) => each.id));
  const groups = new Map();
  for (const each of tensors) groups.set(each[by], [...(groups.get(each[by]) ?? []), each]);
  return html`<div ref=${box}>${answer.error && html`<${Notice} found=${answer} />`}
    ${[...groups].map(([group, members]) => html`<details key=${group} open>
      <summary><b>${by === "kind" ? words(`${group}s`) : group}</b> <small>${number(members.length)}</small></summary>
      <div class="ridges" style=${{ "--runs": runs.length }}>${members.map((each) => html`
        <${Tensor} key=${each.id} of=${each} runs=${runs} found=${known[each.id]?.found} />`)}</div></details>`)}</div>`;
}

/** Read the tensors in sight, some at once; of a running job again after some steps. */
function useInSight(runs, tensors) {
  const box = useRef(null);
  const [sight, setSight] = useState([]);
  const [known, setKnown] = useState({});
  useEffect(() => {
    const watched = new IntersectionObserver((seen) => setSight((before) => [
      ...before.filter((each) => !seen.some(({ target }) => target.dataset.tensor === each)),
      ...seen.filter((each) => each.isIntersecting).map(({ target }) => target.dataset.tensor),
    ]), { rootMargin: "200px" });
    for (const each of box.current.querySelectorAll("figure")) watched.observe(each);
    return () => watched.disconnect();
  }, [tensors.join("\n")]);
  const now = slowly.value;
  const asked = sight.filter((each) => known[each]?.now !== now).slice(0, AT_ONCE);
  const wish = { tensor: asked, worker: value("worker"), mode: value("mode") };
  const answer = useAnswer((signal) => (asked.length ? Promise.all(runs.map((each) =>
    source.json("histograms", each, wish, signal))) : null), JSON.stringify([asked, now]));
  useEffect(() => {
    if (answer.value) setKnown({ ...known, ...Object.fromEntries(asked.map((each) =>
      [each, { now, found: answer.value.map(({ tensors }) => tensors[each]) }])) });
  }, [answer.value]);
  return [box, answer, known];
}

/** The histograms of one tensor in each run, on one scale. */
function Tensor({ of, runs, found = [] }) {
  const range = rangeOf(found.filter(Boolean));
  const said = ({ steps, bad }) => `Histograms of ${of.id} at ${counted(steps.length, "step")} up to ${
    number(steps.at(-1))}${bad.some(Boolean) ? ", some values not finite" : ""}`;
  return html`<figure data-tensor=${of.id}><figcaption>${of.name} <small>${of.kind}</small>
      <${Sign} row=${{ path: of.name, open: null }} /></figcaption>
    <div>${runs.map((each, place) => html`<a key=${each} href=${href("tensors", { run: each, tensor: of.id,
        worker: value("worker"), mode: value("mode") })}>${runs.length > 1 && html`<small>${each}</small>`}
      ${found[place] ? html`<${Ridges} of=${found[place]} range=${range} color=${runColor(each, runs)} said=${said(found[place])} />`
        : html`<p class="muted">${found.length ? "not captured" : "…"}</p>`}</a>`)}</div></figure>`;
}
