/** Parts of the page that are loaded when the first of them is shown. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { html } from "../html.js";
import { Notice } from "./basics.js";

/** Loads the parts by name; set by the page, because only the page knows their address. */
export const loader = { load: () => Promise.reject(new Error("not set")) };

const deep = signal({ parts: {}, problem: "" });
let asked = false;

async function load() {
  if (asked) return;
  asked = true;
  try {
    deep.value = { parts: await loader.load(), problem: "" };
  } catch {
    asked = false;
    deep.value = { parts: {}, problem: "The view could not be loaded; the server does not answer." };
  }
}

/** @param {{name: string, props?: object}} props of the part */
export function Deep({ name, props = {} }) {
  useEffect(() => { load(); }, [name]);
  const Loaded = deep.value.parts[name];
  if (Loaded) return html`<${Loaded} ...${props} />`;
  return html`<${Notice} found=${{ error: deep.value.problem && new Error(deep.value.problem),
    loading: true, value: null }} what="the view" />`;
}
