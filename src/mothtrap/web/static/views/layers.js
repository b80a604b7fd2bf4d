/** Layers: shows where in the network, and when. One statistic of all tensors over steps. */
import { useEffect, useRef, useState } from "preact/hooks";
import { unpackedCells } from "../charts/cells.js";
import { Heat } from "../charts/heat.js";
import { LineChart } from "../charts/line.js";
import { problems, runAnswer, source, ticks } from "../data.js";
import { markOf, number } from "../format.js";
import { html } from "../html.js";
import { Empty, heads, Notice, Scroll, useAnswer, useJson, useKept, useNames, useSeries } from "../parts/basics.js";
import { AllSteps, Pick, picked, PickRank, Search, useZoom, USUAL_KINDS, whole } from "../parts/choices.js";
import { Legend } from "../parts/legend.js";
import { change, go, run, spoken, value, values } from "../state.js";
import { CaptureMore } from "./capture.js";
import { CellPanel, spokenCell } from "./cell.js";
import { firingMarks, useTrial } from "./limit.js";

const ROWS = 512;
const HEIGHTS = { 18: "names", 6: "6 pixels", 1: "1 pixel" };
const SCALES = { log: "log of the magnitude", rank: "rank among all", own: "relative to its median" };
const OF = { log: "magnitude", rank: "magnitude, by rank", own: "× median" };

export function Layers() {
  const names = useNames();
  if (!names.value) return html`<${Notice} found=${names} what="the names" />`;
  const kinds = Object.keys(names.value.statistics);
  if (!kinds.length) return html`<h1 class="hidden">Layers</h1><${NothingCaptured} />`;
  return html`<h1 class="hidden">Layers</h1><${Plane} names=${names.value} kinds=${kinds} />`;
}

function NothingCaptured() {
  const about = runAnswer.value.value;
  if (about?.unit === "round") return html`<${Empty}>A boosted model has no layers.</${Empty}>`;
  return html`<${Empty}>No statistics of tensors were captured${about?.steps ? "" : " so far"}.
    In a new run: <code>mothtrap run --capture everything train.py</code>; in a running job: ${" "}
    <code>mothtrap capture ${about?.called ?? "RUN"} --add 'gradients:*'</code>.</${Empty}><${CaptureMore} />`;
}

function Plane({ names, kinds }) {
  const kind = picked("kind", kinds, USUAL_KINDS);
  const known = names.statistics[kind];
  const stat = picked("stat", known);
  const scale = value("scale", "log");
  const [from, to] = useZoom();
  const [sight, setSight] = useState({ first: 0, count: 30 });
  const [room, setRoom] = useState(0);  // 0 = not measured yet
  const [hover, setHover] = useState(null);
  const [table, setTable] = useState(false);
  const plane = useRef(null);
  const wish = { kind, stat, scale, mode: value("mode", "train"), worker: value("worker"), from, to,
    px: Math.min(1200, Math.max(200, Math.floor(room / 50) * 50)), query: value("query"),
    open: values("open"), shut: values("shut") };
  const align = Math.max(1, Math.floor((ROWS - Math.min(sight.count, ROWS)) / 2));
  const begin = Math.floor(sight.first / align) * align;
  const subject = JSON.stringify([run.value, wish, begin]);
  const answer = useAnswer((signal) => (room ? source.bytes("matrix", run.value, { ...wish, first: begin,
    rows: ROWS }, signal).then(unpackedCells) : null), `${room > 0} ${subject}`, ticks.step.value);
  const cells = useKept(answer.value, JSON.stringify([run.value, kind, stat, scale]));
  useEffect(() => {
    const watched = new ResizeObserver(() => setRoom(plane.current?.clientWidth - 272 || 900));
    watched.observe(plane.current);
    return () => watched.disconnect();
  }, []);

  const rowOf = (place) => cells?.rows[place - cells.first];
  const at = whole(value("at"));
  const path = value("row");
  const here = cells ? cells.rows.findIndex((each) => each.path === path) + cells.first : -1;
  const shown = hover ?? (path ? { row: path, at: at ?? lastStep(cells) } : null);
  const cell = useJson("cell", shown && { ...wish, ...shown }, cells?.columns);
  const trial = useTrial();
  const aloud = useRef(null);  // the cell that the keyboard selected, until its value was read
  useEffect(() => {
    const [found, to] = [cell.value, aloud.current];
    if (!found || !to || found.path !== to.path || to.step < found.begin || to.step >= found.end) return;
    spoken.value = spokenCell(found);
    aloud.current = null;
  }, [cell.value]);
  const move = (place, step) => {
    aloud.current = { path: rowOf(place)?.path, step };
    setHover(null);
    change({ row: rowOf(place)?.path, at: step });
  };
  const pick = (place, step) => {
    const row = rowOf(place);
    if (row?.open === null) openTensor(row.path, step);
    else if (row) { setHover(null); change({ row: row.path, at: step }); }
  };
  const openTensor = (name, step) => go("tensors", { run: run.value, tensor: `${kind}:${name}`, at: step,
    from, to, worker: value("worker"), mode: value("mode") });
  const keys = (event) => {
    const row = rowOf(here);
    if (event.key === " " && row && row.open !== null) toggle(row);
    else if (event.key === "t") setTable(!table);
    else if (event.key === "Home") move(Math.max(here, cells.first), firstBad(cells));
    else return false;
    return true;
  };
  const height = value("height") in HEIGHTS ? Number(value("height")) : 18;
  return html`<div ref=${plane}>
    <${Tools} names=${names} kinds=${kinds} kind=${kind} stat=${stat} scale=${scale} />
    <${Notice} found=${{ ...answer, value: cells }} what="the statistics" />
    ${cells && !cells.total && html`<${Empty}>No tensor matches.</${Empty}>`}
    ${cells && cells.total > 0 && html`<div class="layer-map">
      <div><${Heat} cells=${cells} rowHeight=${height} ratio=${scale === "own"} at=${hover?.at ?? at}
          here=${here} sentence=${sentence(cells, kind, stat)} keys=${keys} onMove=${move} onPick=${pick}
          onHover=${(place, step) => setHover(rowOf(place) ? { row: rowOf(place).path, at: step } : null)}
          onZoom=${(first, end) => change({ from: first, to: end }, false)}
          onSight=${(first, count) => setSight({ first, count })}
          label=${(place) => html`<${Name} row=${rowOf(place)} />`} />
        <${Legend} low=${cells.low} high=${cells.high} ratio=${scale === "own"} of=${OF[scale]} />
        <${Below} from=${from} to=${to} cells=${cells} at=${hover?.at ?? at} extra=${firingMarks(trial)} />
        <p class="muted">${widthOf(cells)} ${cells.note}</p>
        ${table && html`<${StepTable} wish=${wish} at=${at ?? lastStep(cells)} sight=${sight} stat=${stat} />`}
      </div>
      <${CellPanel} cell=${cell} kind=${kind} stat=${stat} mode=${wish.mode} trial=${trial}
        open=${openTensor} table=${table} setTable=${setTable} /></div>`}
  </div>`;
}

const lastStep = (cells) => (cells ? cells.begin + (cells.columns - 1) * cells.width : 0);
const widthOf = (cells) => (cells.width > 1 ? `Each column covers ${cells.width} steps and shows the value `
  + "farthest from 0." : "Each step is a column.");

/** The first step at which a visible cell is not finite, or at which a finding begins. */
function firstBad(cells) {
  let first = cells.columns;
  for (let place = 0; place < cells.codes.length; place += 1) {
    if (cells.codes[place] === 255) first = Math.min(first, place % cells.columns);
  }
  const found = problems().map((each) => each.step);
  return Math.min(first < cells.columns ? cells.begin + first * cells.width : Infinity, ...found,
    lastStep(cells));
}

function sentence(cells, kind, stat) {
  let bad = 0;
  for (const code of cells.codes) bad += code === 255 ? 1 : 0;
  const steps = `steps ${number(cells.begin)} to ${number(lastStep(cells) + cells.width - 1)}`;
  const said = bad ? `, ${number(bad)} cells not finite` : "";
  return `${stat} of ${number(cells.tensors)} ${kind}s in ${number(cells.total)} rows, ${steps}, from `
    + `${number(cells.low)} to ${number(cells.high)}${said}. Arrow keys move the cursor, space opens a `
    + "module, enter opens a tensor, t shows a table.";
}

/** Open or close a module. */
export function toggle(row) {
  const [into, out] = row.open ? ["shut", "open"] : ["open", "shut"];
  change({ [into]: [...values(into).filter((each) => each !== row.path), row.path],
    [out]: values(out).filter((each) => each !== row.path) });
}

/** The name of a row; a click opens a module, or selects a tensor. @param {{row: any}} props */
export function Name({ row }) {
  if (!row) return "…";
  const style = { paddingLeft: `${0.3 + row.depth * 0.9}rem` };
  if (row.open === null) {
    return html`<button tabindex="-1" class="row-name" style=${style} title=${row.path}
      onClick=${() => change({ row: row.path })}>${row.label}<${Sign} row=${row} /></button>`;
  }
  return html`<button tabindex="-1" class="row-name" style=${style} title=${row.path}
    aria-expanded=${row.open} onClick=${() => { toggle(row); }}>
    <span aria-hidden="true">${row.open ? "▾" : "▸"}</span> ${row.label}
    <small> ${number(row.count)}</small><${Sign} row=${row} /></button>`;
}

/** The worst severity of the findings that name a row, as a sign. @param {{row: any}} props */
export function Sign({ row }) {
  const worst = severityOf(row);
  return worst && html`<i class="status ${worst}" title=${worst}>${worst === "error" ? "✖" : "▲"}</i>`;
}

/** The worst severity of the findings that name a tensor, its module, or a submodule. */
function severityOf(row) {
  let worst = "";
  for (const finding of problems()) {
    if (worst === "error") continue;
    if (finding.layers.some((layer) => (row.open === null
      ? layer === row.path || row.path.startsWith(`${layer}.`)
      : `${layer}.`.startsWith(row.path)))) worst = finding.severity;
  }
  return worst;
}

/** Loss and findings over the same steps. */
function Below({ from, to, cells, at, extra }) {
  const losses = (runAnswer.value.value?.losses ?? []).slice(0, 8);
  const answer = useSeries({ name: losses, from, to, px: 1000 });
  const curves = useKept(answer.value?.curves, run.value);
  if (!curves?.length) return null;
  const marks = problems().slice(0, 20).map(markOf);
  const ends = [cells.begin - 0.5, cells.begin + cells.columns * cells.width - 0.5];
  return html`<div class="below"><${LineChart} curves=${curves} gaps=${runAnswer.value.value?.gaps} title="Loss and findings" marks=${[...marks,
    ...extra]} xs=${ends} at=${at} height=${150} onAt=${(step) => change({ at: step })}
    onZoom=${(first, end) => change({ from: first, to: end }, false)} /></div>`;
}

/** The numbers of the visible rows at one step. */
function StepTable({ wish, at, sight, stat }) {
  const found = useJson("column", { ...wish, at, first: sight.first, rows: sight.count }, ticks.step.value);
  if (!found.value) return html`<${Notice} found=${found} what="the numbers" />`;
  return html`<${Scroll} also="short" label="Values of the visible rows"><table>
    <thead><tr>${heads(["row", `${stat} at step ${number(found.value.begin)}`])}</tr></thead>
    <tbody>${found.value.paths.map((path, place) => html`<tr key=${path}><th scope="row">${path}</th>
      <td>${found.value.bad[place] ? "not finite" : found.value.values[place] === null ? "not captured"
        : number(found.value.values[place])}</td></tr>`)}</tbody></table></${Scroll}>`;
}

function Tools({ names, kinds, kind, stat, scale }) {
  return html`<p class="tools">
    <${Pick} label="of" name="kind" now=${kind} choices=${kinds} />
    <${Pick} label="statistic" name="stat" now=${stat} choices=${names.statistics[kind]} />
    <${Pick} label="color" name="scale" now=${scale} choices=${Object.entries(SCALES)} />
    ${names.modes.length > 1 && html`<${Pick} label="mode" name="mode" now=${value("mode", "train")}
      choices=${names.modes} />`}
    <${PickRank} workers=${runAnswer.value.value?.workers} />
    <${Pick} label="rows" name="height" now=${value("height", "18")} choices=${Object.entries(HEIGHTS).reverse()} />
    <${Search} also=${{ row: null }} />
    <${AllSteps} />
  </p>`;
}
