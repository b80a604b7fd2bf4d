/** A list of any length: only visible rows are in the page. */
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.js";

const ROOM = 6;

/** Rows of one height. @param {{count: number, rowHeight: number, row: (place: number) => unknown,
 *   label: string, stick?: boolean, role?: string}} props `stick`: stays at the end as rows are added */
export function Rows({ count, rowHeight, row, label, stick = false, role = "log" }) {
  const box = useRef(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(400);
  const atEnd = useRef(stick);
  useEffect(() => {
    const watched = new ResizeObserver(() => setHeight(box.current?.clientHeight ?? 400));
    watched.observe(box.current);
    return () => watched.disconnect();
  }, []);
  useEffect(() => {
    if (stick && atEnd.current) box.current.scrollTop = count * rowHeight;
  }, [count, stick, height]);
  const scrolled = (event) => {  // may arrive after the list was removed: then the ref is empty
    const { scrollTop, clientHeight } = event.currentTarget;
    atEnd.current = scrollTop + clientHeight >= count * rowHeight - 2 * rowHeight;
    setTop(scrollTop);
  };
  const first = Math.max(0, Math.floor(top / rowHeight) - ROOM);
  const last = Math.min(count, Math.ceil((top + height) / rowHeight) + ROOM);
  const places = Array.from({ length: Math.max(0, last - first) }, (_, place) => first + place);
  return html`<div class="rows scroll" ref=${box} onScroll=${scrolled} tabindex="0" role=${role}
      aria-label=${label} aria-live="off">
    <div class="tall" role="presentation" style=${{ height: `${count * rowHeight}px` }}>
      <div role="presentation" style=${{ transform: `translateY(${first * rowHeight}px)` }}>
        ${places.map((place) => row(place))}
      </div></div></div>`;
}

/** A list of names to tick. Arrow keys move, space or enter ticks.
 * @param {{names: string[], ticked: string[], toggle: (name: string) => void, label: string,
 *   shown?: (name: string) => string, single?: boolean}} props `single`: one is ticked at a time */
export function TickList({ names, ticked, toggle, label, shown = (name) => name, single = false }) {
  const box = useRef(null);
  const [here, setHere] = useState(0);
  const [top, setTop] = useState(0);
  const marks = single ? ["○", "●"] : ["☐", "☑"];
  const rowHeight = 26;
  const height = Math.min(names.length, 14) * rowHeight + 2;
  const at = Math.min(here, Math.max(0, names.length - 1));
  const keys = (event) => {
    const moves = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: names.length - 1,
      PageDown: at + 12, PageUp: at - 12 };
    if (event.key in moves) {
      const next = Math.min(Math.max(moves[event.key], 0), names.length - 1);
      setHere(next);
      const { scrollTop, clientHeight } = box.current;
      if (next * rowHeight < scrollTop) box.current.scrollTop = next * rowHeight;
      else if ((next + 1) * rowHeight > scrollTop + clientHeight) {
        box.current.scrollTop = (next + 1) * rowHeight - clientHeight;
      }
    } else if ((event.key === " " || event.key === "Enter") && names.length) toggle(names[at]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const first = Math.max(0, Math.min(Math.floor(top / rowHeight), at) - ROOM);
  const last = Math.min(names.length, Math.max(Math.ceil((top + height) / rowHeight), at + 1) + ROOM);
  const places = Array.from({ length: Math.max(0, last - first) }, (_, place) => first + place);
  const id = (place) => `${label.replaceAll(" ", "-")}-${place}`;
  return html`<div class="ticks scroll" ref=${box} tabindex="0" role="listbox" aria-label=${label}
      aria-multiselectable=${single ? undefined : "true"} aria-activedescendant=${names.length ? id(at) : undefined}
      onKeyDown=${keys} onScroll=${(event) => setTop(event.currentTarget.scrollTop)}
      style=${{ height: `${height}px` }}>
    <div class="tall" role="presentation" style=${{ height: `${names.length * rowHeight}px` }}>
      <div role="presentation" style=${{ transform: `translateY(${first * rowHeight}px)` }}>
        ${places.map((place) => html`<div key=${names[place]} id=${id(place)} role="option"
            class="tick ${place === at ? "here" : ""}" aria-posinset=${place + 1}
            aria-setsize=${names.length} aria-selected=${ticked.includes(names[place])}
            title=${names[place]} onClick=${() => { setHere(place); toggle(names[place]); }}>
          <span aria-hidden="true">${marks[Number(ticked.includes(names[place]))]}</span>
          ${" "}${shown(names[place])}</div>`)}
      </div></div></div>`;
}
