/* One epoch: its state, the next step, what it has read and written, and decisions about it. */

import { Actions } from "./actions.js";
import { Delay } from "./delay.js";
import { Facts, Problem, runLink, ViewLink } from "./parts.js";
import { useAnswer } from "./server.js";
import { clock, count, moment, size } from "./words.js";

const { createElement: h, Fragment, useState } = globalThis.React;

function Log({ entries }) {
  return h("div", { className: "ep-log ep-wide" }, h("table", null,
    head(["Time (UTC)", "State", "Table", "Token", "Rows", "By", "Note"]),
    h("tbody", null, entries.map((one, index) => h("tr", { key: index },
      h("td", null, clock(one.at)), h("td", null, one.state), h("td", null, one.sink || "all"), h("td", null, one.token),
      h("td", null, one.rows ?? ""), h("td", null, runLink(one.owner), ` generation ${one.owner.generation}, try ${one.owner.try_number}`),
      h("td", null, one.note))))));
}

/* What the epoch has read: states of tables, and bounds of sources. */
function Inputs({ epoch }) {
  const sources = epoch.sources.map((one) => `source ${one.source}, revision ${one.revision}: ${one.bounds || `${count(one.files, "file")}${one.named.length ? `, such as ${one.named[0]}` : ""}`}`);
  if (!epoch.inputs.length && !sources.length) return null;
  return h("section", { "aria-label": "Inputs" }, h("h3", null, "Inputs"),
    epoch.inputs.length ? h("div", { className: "ep-log" }, h("table", null,
      head(["Table", "Read", "From", "To (UTC)", "CSN", "Version"]),
      h("tbody", null, epoch.inputs.map((one, index) => h("tr", { key: index },
        h("th", { scope: "row" }, one.table), h("td", null, one.kind), h("td", null, one.from ? moment(one.from) : "the beginning"), h("td", null, moment(one.to)),
        h("td", null, one.csn), h("td", null, one.version ?? "none yet")))))) : null,
    sources.length ? h("ul", null, sources.map((words) => h("li", { key: words }, words))) : null);
}

function head(columns) {
  return h("thead", null, h("tr", null, columns.map((one) => h("th", { key: one, scope: "col" }, one))));
}

/* The rows that each table of the job has of the epoch. */
function Slices({ epoch }) {
  if (!epoch.slices.length) return null;
  return h("section", { "aria-label": "Tables" }, h("h3", null, "Tables"), h("div", { className: "ep-log" }, h("table", null,
    head(["Table", "Revision", "CSN", "Rows", "Files", "Size", "Published (UTC)"]),
    h("tbody", null, epoch.slices.map((one) => h("tr", { key: one.table },
      h("th", { scope: "row" }, one.table), h("td", null, one.revision), h("td", null, one.csn), h("td", null, one.rows), h("td", null, one.files),
      h("td", null, size(one.size_bytes)), h("td", null, moment(one.at))))))));
}

/* Attempts, the latest first, with what refused them. */
function Attempts({ epoch }) {
  if (!epoch.attempts.length) return null;
  const state = (one) => (one.staged ? "staged" : one.silent ? `${one.state.toLowerCase()}, silent` : one.state.toLowerCase().replace("_", " ") || "replaced by a newer attempt");
  return h("section", { "aria-label": "Attempts" }, h("h3", null, "Attempts"), h("div", { className: "ep-log" }, h("table", null,
    head(["Token", "State", "Begun (UTC)", "Ended (UTC)", "By"]),
    h("tbody", null, [...epoch.attempts].reverse().map((one) => h("tr", { key: one.token },
      h("th", { scope: "row" }, one.token), h("td", null, state(one)), h("td", null, clock(one.begun)), h("td", null, one.ended ? clock(one.ended) : "–"), h("td", null, runLink(one.owner))))))));
}

/* Declared checks; of those that refused the newest output the figure and a few rows. */
function Checks({ epoch }) {
  if (!epoch.checks.length && !epoch.findings.length) return null;
  return h("section", { "aria-label": "Checks" }, h("h3", null, "Checks"),
    epoch.findings.map((one) => h("div", { key: one.check, className: "ep-note ep-error" }, h("b", null, one.check), ` refused it: ${one.figure}`,
      one.sample.length ? h("pre", null, one.sample.join("\n")) : null)),
    h("ul", null, epoch.checks.filter((words) => !epoch.findings.some((one) => one.check === words)).map((words) => h("li", { key: words }, words))));
}

export function Detail({ chosen, row, cell, query, refresh, close, go }) {
  const [turn, setTurn] = useState(0);
  const [epoch, error] = useAnswer("epoch", { ...query, job: chosen.job, start: chosen.start, end: chosen.end }, refresh, turn);
  const done = cell?.committed;
  const facts = [
    ["Epoch", `${moment(chosen.start)} to ${moment(chosen.end)} UTC`],
    ["Job", chosen.job],
    ["State", epoch && `${epoch.state || "nothing"}${epoch.revision ? `, revision ${epoch.revision}` : ""}${epoch.summary ? `: ${epoch.summary}` : ""}`],
    ["Waits for", epoch && epoch.waiting_for.join("; ")],
    ["Kept in", epoch && epoch.places.join(", ")],
    ["Expired", epoch && epoch.expired.length && `${epoch.expired.join(", ")}: no cut can be had at this barrier any more`],
    ["Retired", epoch && epoch.retired],
    ["Inactive", epoch && epoch.inactive && `since ${moment(epoch.inactive)}: readers do not wait for this job until it commits`],
    ["Restatement", cell?.restatement && h(ViewLink, { place: { view: "restatements", name: cell.restatement }, go }, cell.restatement)],
    ["Next step", epoch && epoch.next_step],
    [cell?.expired ? "Was published" : "Readers get", done && `revision ${done.revision}: ${count(done.rows, "row")} in ${count(done.files, "file")}, ${size(done.size_bytes)}, CSN ${done.csn}, published ${clock(done.at)}`],
  ];
  return h("section", { className: "ep-note ep-detail", "aria-label": "Epoch" },
    h("div", { className: "ep-title" }, h("h2", null, row?.table ?? chosen.table),
      h("button", { type: "button", className: "ep-button", onClick: close }, "Close")),
    h("div", { "aria-live": "polite" }, h(Facts, { facts })),
    error ? h(Problem, { error }) : null,
    epoch ? h(Fragment, null,
      h(Actions, { epoch, query, decided: () => setTurn((last) => last + 1), go }),
      h(Checks, { epoch }), h(Inputs, { epoch }), h(Slices, { epoch }), h(Attempts, { epoch })) : null,
    row ? h(Delay, { key: row.table, table: row.table, query, refresh: false }) : null,
    epoch && epoch.log.length ? h("section", { "aria-label": "State log" }, h("h3", null, "State log"), h(Log, { entries: epoch.log })) : null);
}
