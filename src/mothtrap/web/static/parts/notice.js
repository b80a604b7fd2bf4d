/** Sentences shown instead of data: loading, an error, or how to get data. */
import { html } from "../html.js";

/** @param {{error: Error | null, loading: boolean, value: unknown}} found */
export function Notice({ found, what }) {
  if (found.error) return html`<p class="notice problem" role="alert">${found.error.message}</p>`;
  if (found.loading && !found.value) return html`<p class="notice" role="status">Reading ${what} …</p>`;
  return null;
}

/** @param {{children: unknown}} props */
export const Empty = ({ children }) => html`<p class="notice empty">${children}</p>`;
