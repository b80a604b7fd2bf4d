/** The colors of the page: as in the system, light, or dark; the browser stores the choice. */
import { useState } from "preact/hooks";
import { colorsChanged } from "../charts/colors.js";
import { html } from "../html.js";

const KEPT = "mothtrap.theme";
const NEXT = { system: "light", light: "dark", dark: "system" };

function keptTheme() {
  try {
    const found = localStorage.getItem(KEPT);
    return found && found in NEXT ? found : "system";
  } catch { return "system"; }
}

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
    try { localStorage.setItem(KEPT, next); } catch { /* kept until the page is closed */ }
  };
  return html`<button class="plain last" onClick=${change} title="Colors: system, light, dark">Colors: ${theme}</button>`;
}
