// @ts-check
// Files of comma-separated values (RFC 4180), made in the browser.

/** Lines of a file. Whoever needs more asks the API. */
export const LINES_MAX = 100_000;

/** A field. Spreadsheets take what begins with one of these signs for a formula, and users choose their names: it is
 * marked as text. Where the decimal sign is a comma, a cell begins after each `;` as well. Numbers below 0 are none.
 * @param {string | number} value */
export function csvField(value) {
  const text = typeof value === "string" ? value.replace(/(^|;)(?=[\s"]*[=+\-@\t\r])/g, "$1'") : String(value);
  return /[",;\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Mark of UTF-8, without which Excel reads other letters than ASCII wrongly. */
const BOM = "\ufeff";

/** Saves a file. @param {string} name @param {(string | number)[][]} lines */
export function save(name, lines) {
  const text = BOM + lines.map((line) => `${line.map(csvField).join(",")}\r\n`).join("");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  link.download = `${name}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
