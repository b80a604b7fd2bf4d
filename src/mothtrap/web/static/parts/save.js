/** Saves files that the page has made, and choices of the reader. */

/** @param {Blob} blob @param {string} name of the file */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replace(/[^\w.-]+/g, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Keep a choice in the browser, for all runs. @param {string} name @param {string} text */
export function keep(name, text) {
  try { localStorage.setItem(`mothtrap.${name}`, text); } catch { /* kept until the page is closed */ }
}

/** A choice that was kept. @param {string} name */
export function kept(name) {
  try { return localStorage.getItem(`mothtrap.${name}`); } catch { return null; }
}
