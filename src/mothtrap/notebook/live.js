/** Draws what a run shows now: verdict, findings and the loss. Texts of a run are data. */
const COLORS = { error: "#b3261e", warning: "#8a5200", info: "#2a5d9f", ok: "#236b36" };
const MARKS = { error: "✖", warning: "▲", info: "●", ok: "✔" };
const WIDTH = 600, HEIGHT = 80, NS = "http://www.w3.org/2000/svg";

function element(name, text = "", style = "") {
  const made = document.createElement(name);
  made.textContent = text;
  made.style.cssText = style;
  return made;
}

function drawn(name, attributes) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** The loss as a line; gaps and marks at the top where it is not finite. */
function spark(points, onsets) {
  const picture = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: "100%", height: HEIGHT,
    preserveAspectRatio: "none", role: "img", "aria-label": `Loss over ${points.length} points` });
  const values = points.map(([, value]) => value).filter((value) => value !== null);
  const positive = values.length > 0 && Math.min(...values) > 0;
  const scaled = (value) => (positive ? Math.log(value) : value);
  const low = scaled(Math.min(...values)), high = scaled(Math.max(...values));
  const first = points[0][0], last = points[points.length - 1][0];
  const x = (step) => ((step - first) / Math.max(1, last - first)) * WIDTH;
  const y = (value) => HEIGHT - 6 - ((scaled(value) - low) / (high - low || 1)) * (HEIGHT - 16);
  for (const step of onsets) {
    picture.append(drawn("line", { x1: x(step), x2: x(step), y1: 0, y2: HEIGHT, stroke: COLORS.error,
      "stroke-dasharray": "4 3", "vector-effect": "non-scaling-stroke" }));
  }
  let path = "", pen = "M";
  for (const [step, value] of points) {
    if (value === null) {
      pen = "M";
      picture.append(drawn("rect", { x: x(step) - 1, y: 0, width: 3, height: 5, fill: "#b0119e" }));
    } else {
      path += `${pen}${x(step).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    }
  }
  if (path) {
    picture.append(drawn("path", { d: path, fill: "none", stroke: "#0f62b0", "stroke-width": 1.5,
      "vector-effect": "non-scaling-stroke" }));
  }
  return picture;
}

function entry({ severity, name, since, layer }) {
  const line = element("li");
  line.append(element("span", MARKS[severity] ?? "", `color: ${COLORS[severity] ?? "inherit"}`),
    ` ${name} since ${since}${layer ? ` in ${layer}` : ""}`);
  return line;
}

function render({ model, el }) {
  const strip = element("section", "", "font: 14px/1.45 system-ui, sans-serif; max-width: 760px");
  strip.setAttribute("aria-live", "polite");
  const draw = () => {
    const shown = model.get("shown");
    const head = element("div", "", "opacity: .75");
    head.append(`${shown.run} · ${shown.state} · ${shown.steps.toLocaleString("en")} steps`);
    const verdict = element("p", "", "margin: .3em 0; font-weight: 600");
    verdict.append(element("span", MARKS[shown.worst], `color: ${COLORS[shown.worst]}`), ` ${shown.verdict}`);
    const findings = element("ul", "", "margin: .3em 0; padding: 0; list-style: none");
    findings.append(...shown.findings.map(entry));
    strip.replaceChildren(head, verdict, findings);
    const onsets = shown.findings.filter((each) => each.severity !== "info").map((each) => each.step);
    if (shown.loss.length) strip.append(spark(shown.loss, onsets));
  };
  model.on("change:shown", draw);
  draw();
  el.append(strip);
  return () => model.off("change:shown", draw);
}

export default { render };
