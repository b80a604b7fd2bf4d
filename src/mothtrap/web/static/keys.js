/** Keyboard shortcuts; the help dialog shows the same table. */
import { useEffect } from "preact/hooks";
import { VIEWS, change, go, help, run, value } from "./state.js";

/** Actions of a view by key name; each view adds and removes its own. */
export const actions = new Map();

/** Set what keys do as long as a view is shown. @param {Record<string, (by: number) => void>} by */
export const useActions = (by) => useEffect(() => {
  for (const [name, act] of Object.entries(by)) actions.set(name, act);
  return () => { for (const name of Object.keys(by)) actions.delete(name); };
});

export const KEYS = [
  ...VIEWS.map((each) => ({
    keys: ["g", each.key], does: `Go to ${each.title}`,
    act: () => go(each.id, each.run ? { run: run.value } : {}),
    when: () => !each.run || Boolean(run.value),
  })),
  { keys: ["n"], does: "Next finding", act: () => actions.get("next")?.() },
  { keys: ["p"], does: "Previous finding", act: () => actions.get("previous")?.() },
  { keys: ["/"], does: "Search", act: () => document.querySelector("[data-search]")?.focus() },
  { keys: ["c"], does: "Copy the command to run next",
    act: () => document.querySelector("[data-copy]")?.click() },
  { keys: ["w"], does: "Zoom in", act: () => actions.get("zoom")?.(0.5) },
  { keys: ["s"], does: "Zoom out", act: () => actions.get("zoom")?.(2) },
  { keys: ["a"], does: "Earlier steps", act: () => actions.get("pan")?.(-0.25) },
  { keys: ["d"], does: "Later steps", act: () => actions.get("pan")?.(0.25) },
  { keys: ["←"], does: "In a chart: move the cursor one point back (Shift: ten)", act: null },
  { keys: ["→"], does: "In a chart: move the cursor one point forward (Shift: ten)", act: null },
  { keys: ["Home"], does: "In a chart: move the cursor to the first bad step", act: null },
  { keys: ["["], does: "In Samples: previous step", act: () => actions.get("step")?.(-1) },
  { keys: ["]"], does: "In Samples: next step", act: () => actions.get("step")?.(1) },
  { keys: ["t"], does: "In a chart: show its values as a table", act: null },
  { keys: ["?"], does: "Show keyboard shortcuts", act: () => { help.value = !help.value; } },
  { keys: ["Esc"], does: "Close, leave the search, or show all steps", act: escape },
];

let before = "";

/** @param {KeyboardEvent} event */
export function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target instanceof HTMLElement && event.target.matches("input, select, textarea");
  const name = event.key === "Escape" ? "Esc" : event.key;
  if (typing && name !== "Esc") return;
  const word = before ? [before, name] : [name];
  before = "";
  const found = KEYS.find((each) => each.act && each.keys.join(" ") === word.join(" ") &&
    (each.when?.() ?? true));
  if (found) {
    event.preventDefault();
    found.act();
  } else if (KEYS.some((each) => each.keys.length > 1 && each.keys[0] === name)) before = name;
}

function escape() {
  if (help.value) help.value = false;
  else if (document.activeElement?.matches("input, select, textarea")) document.activeElement.blur();
  else if (value("from") || value("to")) change({ from: null, to: null });
}

