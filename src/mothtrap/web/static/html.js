/** `html` of the page: htm over preact. Text becomes text nodes, never markup. */
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
