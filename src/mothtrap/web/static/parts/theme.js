/** The colors of the page: as in the system, light, or dark; the browser stores the choice. */
import { useState } from "preact/hooks";
import { colorsChanged } from "../charts/colors.js";
import { html } from "../html.js";
import { keep, kept } from "./save.js";

const NEXT = { system: "light", light: "dark", dark: "system" };

const keptTheme = () => (kept("theme") in NEXT ? kept("theme") : "system");

function show(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

show(keptTheme());

/** A button that switches to the next theme. */
export function Theme() {
  const [theme, setTheme] = useState(keptTheme);
  const change = () => {
    const next = NEXT[theme];
    setTheme(next);
    show(next);
    colorsChanged();
    keep("theme", next);
  };
  return html`<button class="plain last" onClick=${change} title="Colors: system, light, dark">Colors: ${theme}</button>`;
}
