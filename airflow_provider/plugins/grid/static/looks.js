/* The look of a cell, in words and signs, and the legend. */

import { count, moment } from "./words.js";

const { createElement: h } = globalThis.React;
const THIN_PX = 12;

/* What each look of a cell means; also the legend. */
export const LOOKS = [
  { id: "commit", mark: "", label: "committed", hint: "readers get it" },
  { id: "revised", mark: "2", label: "committed again", hint: "revision 2 or later; its number is in the cell" },
  { id: "skipped", mark: "–", label: "skipped", hint: "declared to have nothing new" },
  { id: "expired", mark: "∅", label: "expired", hint: "retention took it back: no cut can be had at its end any more" },
  { id: "open", mark: "…", label: "open", hint: "an attempt computes it" },
  { id: "precommit", mark: "•", label: "precommit", hint: "every output is processed, not published yet" },
  { id: "silent", mark: "?", label: "silent", hint: "its attempt's lock has ended; the next one takes over" },
  { id: "aborted", mark: "×", label: "aborted", hint: "its newest attempt ended without a commit" },
  { id: "check-failed", mark: "!", label: "check failed", hint: "a check refused it; its rows are kept, nothing is published" },
  { id: "missing", mark: "○", label: "missing", hint: "not begun, and later ones are there: readers wait before it" },
  { id: "due", mark: "", label: "not begun", hint: "due, and not begun" },
  { id: "hidden", mark: "", label: "not shown", hint: "computed by a DAG that you may not read" },
];

export function look(row, cell) {
  if (cell.silent) return "silent";
  if (isPublished(cell)) return published(cell);
  const begun = { OPEN: "open", PRECOMMIT: "precommit", ABORTED: "aborted", CHECK_FAILED: "check-failed" }[cell.state];
  if (begun) return begun;
  if (row.watermark && Date.parse(cell.end) <= Date.parse(row.watermark)) return "hidden";
  return row.reaches && Date.parse(row.reaches) > Date.parse(cell.end) ? "missing" : "due";
}

export function isPublished(cell) {
  return cell.state === "COMMIT" || cell.state === "SKIPPED";
}

function published(cell) {
  if (cell.expired) return "expired";
  if (cell.state === "SKIPPED") return "skipped";
  return cell.revision > 1 ? "revised" : "commit";
}

/* What stands in a cell: words where there is room for them, else a sign. */
export function mark(row, cell, width) {
  const { id, label, mark: sign } = LOOKS.find((one) => one.id === look(row, cell));
  const words = id === "revised" ? `committed, revision ${cell.revision}` : `${label}${progress(cell)}`;
  if (width >= words.length * 6.5 + 14) return words;
  const short = id === "revised" ? String(cell.revision) : sign;
  return width < Math.max(THIN_PX, short.length * 8) ? "" : short;
}

/* How far an attempt is with this one table, where its state does not say so. */
function progress(cell) {
  const done = !cell.silent && ["OPEN", "PRECOMMIT"].includes(cell.state) && cell.sink;
  return done === "WRITTEN" ? ", written" : done === "PROCESSED" && cell.state === "OPEN" ? ", processed" : "";
}

export function calendar(cadence) {
  const cron = cadence.split(" ").slice(0, 5).join(" ");
  const name = { "0 * * * *": "hourly", "0 0 * * *": "daily", "0 0 * * 0": "weekly", "0 0 1 * *": "monthly" }[cron];
  return name ? `${name},${cadence.slice(cron.length)}` : cadence;
}

export function inWords(row, cell) {
  const { id, label } = LOOKS.find((one) => one.id === look(row, cell));
  const done = cell.committed;
  const has = done ? `${count(done.rows, "row")} at CSN ${done.csn}` : "";
  const over = done && !isPublished(cell) ? `, readers get revision ${done.revision} with ${has}` : has && `, ${has}`;
  const revision = id === "revised" ? `, revision ${cell.revision}` : "";
  const member = cell.restatement ? `, member of restatement ${cell.restatement}` : "";
  return `${row.table}, ${moment(cell.start)} to ${moment(cell.end)} UTC: ${label}${progress(cell)}${revision}${over}${member}`;
}

export function Legend() {
  return h("div", { className: "ep-legend", role: "group", "aria-label": "Legend" },
    LOOKS.map((one) => h("span", { key: one.id, title: one.hint },
      h("i", { className: `ep-swatch ep-${one.id}`, style: { fontStyle: "normal" } }, one.mark), one.label)),
    h("span", { title: "an attempt at a further revision; readers still get the committed one" },
      h("i", { className: "ep-swatch ep-open ep-over" }), "computed again, the committed one stays"),
    h("span", null, h("i", { className: "ep-swatch", style: { borderLeft: "2px solid var(--ep-focus)", borderRadius: 0, width: 4 } }),
      "watermark"),
    h("span", { title: "an open restatement computes the epoch again; readers get the committed rows until it is published" },
      h("i", { className: "ep-swatch", style: { borderTop: "3px solid var(--ep-restated)", borderRadius: 0, height: 3 } }), "member of a restatement"));
}
