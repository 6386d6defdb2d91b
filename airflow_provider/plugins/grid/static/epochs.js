/* The page of tables and epochs: a function component on the React that Airflow's UI provides; no build step. */

import { addressOf, Choice, Facts, Problem, runLink, Text, ViewLink } from "./parts.js";
import { Restatement, Restatements } from "./restatements.js";
import { useAnswer } from "./server.js";
import { CSS } from "./style.js";
import { clock, count, day, moment, pad, size } from "./words.js";

const { createElement: h, Fragment, useCallback, useEffect, useMemo, useRef, useState } = globalThis.React;

const MIN_CELL_PX = 6;
const THIN_PX = 12;
const HOUR_MS = 3600_000;
const DAY_MS = 24 * HOUR_MS;

const SPANS = [
  { label: "1 day", hours: 24 },
  { label: "3 days", hours: 72 },
  { label: "7 days", hours: 168 },
  { label: "30 days", hours: 720 },
];

/* What each look of a cell means; also the legend. */
const LOOKS = [
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

/* --- words ----------------------------------------------------------------------------------------------- */

function look(row, cell) {
  if (cell.silent) return "silent";
  if (isPublished(cell)) return published(cell);
  const begun = { OPEN: "open", PRECOMMIT: "precommit", ABORTED: "aborted", CHECK_FAILED: "check-failed" }[cell.state];
  if (begun) return begun;
  if (row.watermark && Date.parse(cell.end) <= Date.parse(row.watermark)) return "hidden";
  return row.cells.some((one) => one.committed && Date.parse(one.start) > Date.parse(cell.start)) ? "missing" : "due";
}

function isPublished(cell) {
  return cell.state === "COMMIT" || cell.state === "SKIPPED";
}

function published(cell) {
  if (cell.expired) return "expired";
  if (cell.state === "SKIPPED") return "skipped";
  return cell.revision > 1 ? "revised" : "commit";
}

/* What stands in a cell: words where there is room for them, else a sign. */
function mark(row, cell, width) {
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

function calendar(cadence) {
  const cron = cadence.split(" ").slice(0, 5).join(" ");
  const name = { "0 * * * *": "hourly", "0 0 * * *": "daily", "0 0 * * 0": "weekly", "0 0 1 * *": "monthly" }[cron];
  return name ? `${name},${cadence.slice(cron.length)}` : cadence;
}

function inWords(row, cell) {
  const { id, label } = LOOKS.find((one) => one.id === look(row, cell));
  const done = cell.committed;
  const has = done ? `${count(done.rows, "row")} at CSN ${done.csn}` : "";
  const over = done && !isPublished(cell) ? `, readers get revision ${done.revision} with ${has}` : has && `, ${has}`;
  const revision = id === "revised" ? `, revision ${cell.revision}` : "";
  const member = cell.restatement ? `, member of restatement ${cell.restatement}` : "";
  return `${row.table}, ${moment(cell.start)} to ${moment(cell.end)} UTC: ${label}${progress(cell)}${revision}${over}${member}`;
}

/* --- parts of the page ------------------------------------------------------------------------------------- */

function Legend() {
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

/* Pixels for times: from the first epoch on, a few at least for the shortest one, never less than there is room. */
function useScale(grid, room) {
  return useMemo(() => {
    const end = Date.parse(grid.end);
    let [first, shortest] = [end, end - Date.parse(grid.start)];
    for (const row of grid.rows) {
      for (const cell of row.cells) {
        first = Math.min(first, Date.parse(cell.start));
        shortest = Math.min(shortest, Date.parse(cell.end) - Date.parse(cell.start));
      }
    }
    const start = Math.max(Date.parse(grid.start), first < end ? first : 0);
    const span = Math.max(1, end - start);
    const perMs = Math.max(room / span, MIN_CELL_PX / shortest);
    return { start, span, width: span * perMs, at: (time) => (Date.parse(time) - start) * perMs, perMs };
  }, [grid, room]);
}

function Axis({ scale }) {
  const steps = [HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS, DAY_MS, 2 * DAY_MS, 7 * DAY_MS, 28 * DAY_MS];
  const step = steps.find((one) => one * scale.perMs >= 90) ?? 28 * DAY_MS;
  const ticks = [];
  for (let at = Math.ceil(scale.start / step) * step; at < scale.start + scale.span; at += step) ticks.push(at);
  return h("div", { className: "ep-row ep-axis" },
    h("div", { className: "ep-name" }, "Table · UTC"),
    h("div", { className: "ep-track", style: { width: scale.width } },
      ticks.map((at) => h("span", { key: at, className: "ep-tick", style: { left: (at - scale.start) * scale.perMs } },
        step < DAY_MS && new Date(at).getUTCHours() ? `${pad(new Date(at).getUTCHours())}:00` : day(new Date(at))))));
}

/* One cell of a row can be reached with Tab; from it the arrows lead through the row and to the rows beside it. */
function move(event) {
  const cells = [...event.currentTarget.querySelectorAll(".ep-cell")];
  const at = cells.indexOf(event.target);
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: cells.length - 1 }[event.key];
  const beside = { ArrowUp: "previousElementSibling", ArrowDown: "nextElementSibling" }[event.key];
  const next = beside ? nearest(event.currentTarget.parentElement[beside], event.target) : cells[to];
  if (at < 0 || (to === undefined && !beside)) return;
  event.preventDefault();
  next?.focus();
}

function nearest(row, cell) {
  const middle = (one) => one.offsetLeft + one.offsetWidth / 2;
  const away = (one) => Math.abs(middle(one) - middle(cell));
  return [...(row?.querySelectorAll(".ep-cell") ?? [])].reduce((best, one) => (best && away(best) <= away(one) ? best : one), null);
}

function Cell({ row, cell, scale, chosen, choose, reached }) {
  const left = Math.max(0, scale.at(cell.start));
  const width = Math.max(3, Math.min(scale.width, scale.at(cell.end)) - left - 2);
  const words = inWords(row, cell);
  const over = cell.committed && !isPublished(cell) ? " ep-over" : "";
  const thin = width < THIN_PX ? " ep-thin" : "";
  return h("button", {
    type: "button", className: `ep-cell ep-${look(row, cell)}${over}${thin}`, style: { left: left + 1, width }, title: words,
    "aria-label": words, "aria-pressed": chosen, tabIndex: reached ? 0 : -1, onClick: () => choose(row, cell),
  }, mark(row, cell, width));
}

/* Members of one open restatement that follow each other in a row. */
function marks(row) {
  const found = [];
  for (const cell of row.cells) {
    const last = found.at(-1);
    if (!cell.restatement) continue;
    if (last && last.name === cell.restatement && last.end === cell.start) last.end = cell.end;
    else found.push({ name: cell.restatement, start: cell.start, end: cell.end });
  }
  return found;
}

function Mark({ mark: { name, start, end }, scale, go }) {
  const left = Math.max(0, scale.at(start));
  const width = Math.max(8, Math.min(scale.width, scale.at(end)) - left - 2);
  const words = `Restatement ${name} computes ${moment(start)} to ${moment(end)} UTC again`;
  return h(ViewLink, {
    place: { view: "restatements", name }, go, className: "ep-restated", style: { left: left + 1, width }, title: words, "aria-label": words,
  }, width < 24 ? "" : name);
}

function Rows({ grid, chosen, choose, go }) {
  const [room, setRoom] = useState(900);
  const frame = useRef(null);
  useEffect(() => {
    const watcher = new ResizeObserver(([entry]) => setRoom(Math.max(300, entry.contentRect.width - 232)));
    watcher.observe(frame.current);
    return () => watcher.disconnect();
  }, []);
  const scale = useScale(grid, room);
  useEffect(() => {
    frame.current.scrollLeft = frame.current.scrollWidth;
  }, [grid.domain, grid.start, grid.end]);
  return h("div", { className: "ep-scroll", ref: frame },
    h(Axis, { scale }),
    grid.rows.map((row) => h("div", { className: "ep-row", key: row.table },
      h("div", { className: "ep-name" }, h("b", null, row.table),
        h("small", null, `${row.job} · ${calendar(row.cadence)}${row.kind === "full" ? " · full table" : ""}`),
        h("small", null, row.watermark ? `complete to ${moment(row.watermark)}` : "nothing complete yet"),
        row.retired ? h("small", null, `retired: ${row.retired}`) : null,
        row.inactive ? h("small", null, `inactive since ${moment(row.inactive)}: readers do not wait for it`) : null),
      h("div", {
        className: `ep-track${row.cells.some((cell) => cell.restatement) ? " ep-tall" : ""}`, style: { width: scale.width }, role: "group",
        "aria-label": `Epochs of ${row.table}`, onKeyDown: move,
      },
        row.cells.map((cell, index) => {
          const here = chosen?.table === row.table && chosen.start === cell.start;
          const reached = chosen?.table === row.table ? here : index === row.cells.length - 1;
          return h(Cell, { key: cell.start, row, cell, scale, choose, chosen: here, reached });
        }),
        marks(row).map((one) => h(Mark, { key: one.start, mark: one, scale, go })),
        row.cells.length ? null : h("span", { className: "ep-none" }, "no epoch in this range"),
        row.watermark && scale.at(row.watermark) >= 0 && scale.at(row.watermark) <= scale.width
          ? h("i", { className: "ep-mark", style: { left: scale.at(row.watermark) } }) : null))));
}

function Log({ entries }) {
  return h("div", { className: "ep-log" }, h("table", null,
    h("thead", null, h("tr", null, ["Time (UTC)", "State", "Table", "Token", "Rows", "By", "Note"].map((one) => h("th", { key: one }, one)))),
    h("tbody", null, entries.map((one, index) => h("tr", { key: index },
      h("td", null, clock(one.at)), h("td", null, one.state), h("td", null, one.sink || "all"), h("td", null, one.token),
      h("td", null, one.rows ?? ""), h("td", null, runLink(one.owner), ` generation ${one.owner.generation}, try ${one.owner.try_number}`),
      h("td", null, one.note))))));
}

function Detail({ chosen, row, cell, query, refresh, close, go }) {
  const [epoch, error] = useAnswer("epoch", { ...query, job: chosen.job, start: chosen.start, end: chosen.end }, refresh);
  const done = cell?.committed;
  const facts = [
    ["Epoch", `${moment(chosen.start)} to ${moment(chosen.end)} UTC`],
    ["Job", chosen.job],
    ["State", epoch && `${epoch.state || "nothing"}${epoch.revision ? `, revision ${epoch.revision}` : ""}${epoch.summary ? `: ${epoch.summary}` : ""}`],
    ["Waits for", epoch && epoch.waiting_for.join("; ")],
    ["Refused by", epoch && epoch.findings.map((one) => [`${one.check}: ${one.figure}`, ...one.sample].join(" · ")).join("; ")],
    ["Kept in", epoch && epoch.places.join(", ")],
    ["Expired", epoch && epoch.expired.length && `${epoch.expired.join(", ")}: no cut can be had at this barrier any more`],
    ["Retired", epoch && epoch.retired],
    ["Inactive", epoch && epoch.inactive && `since ${moment(epoch.inactive)}: readers do not wait for this job until it commits`],
    ["Restatement", cell?.restatement && h(ViewLink, { place: { view: "restatements", name: cell.restatement }, go }, cell.restatement)],
    ["Next step", epoch && epoch.next_step],
    [cell?.expired ? "Was published" : "Readers get", done && `revision ${done.revision}: ${count(done.rows, "row")} in ${count(done.files, "file")}, ${size(done.size_bytes)}, CSN ${done.csn}, published ${clock(done.at)}`],
  ];
  return h("section", { className: "ep-note ep-detail", "aria-label": "Epoch", "aria-live": "polite" },
    h("div", { className: "ep-title" }, h("h2", null, row?.table ?? chosen.table),
      h("button", { type: "button", className: "ep-button", onClick: close }, "Close")),
    h(Facts, { facts }),
    error ? h(Problem, { error }) : null,
    epoch && epoch.log.length ? h(Log, { entries: epoch.log }) : null);
}

/* --- the page ---------------------------------------------------------------------------------------------- */

function fromAddress() {
  const given = new URLSearchParams(globalThis.location.search);
  const [from, to] = [Date.parse(given.get("from") ?? ""), Date.parse(given.get("to") ?? "")];
  const asked = to > from ? (to - from) / HOUR_MS : 168;
  const span = SPANS.find((one) => one.hours >= asked) ?? SPANS.at(-1);
  return {
    connection: given.get("conn_id") ?? "", domain: given.get("domain") ?? "", span: String(span.hours),
    to: Number.isNaN(to) ? "" : new Date(to).toISOString().slice(0, 16), words: given.get("job") ?? given.get("table") ?? "",
    place: { view: given.get("view") || given.get("restatement") ? "restatements" : "", name: given.get("restatement") ?? "" },
  };
}

/* Keep the address at what is shown, so that it can be passed on. */
function toAddress({ connection, domain, to, span, words, place }) {
  const url = addressOf(place);
  const end = to ? Date.parse(`${to}Z`) : NaN;
  const shown = {
    conn_id: connection, domain, job: words,
    from: Number.isNaN(end) ? "" : new Date(end - span * HOUR_MS).toISOString(), to: Number.isNaN(end) ? "" : new Date(end).toISOString(),
  };
  url.searchParams.delete("table");
  for (const [name, value] of Object.entries(shown)) value ? url.searchParams.set(name, value) : url.searchParams.delete(name);
  globalThis.history.replaceState(globalThis.history.state, "", url);
}

function matches(row, words) {
  const wanted = words.toLowerCase().split(/[\s,]+/).filter(Boolean);
  return !wanted.length || wanted.some((word) => row.table.toLowerCase().includes(word) || row.job.toLowerCase().includes(word));
}

function Nothing({ domain, words, tables }) {
  const why = tables
    ? `None of the ${tables} tables of domain “${domain}” matches “${words}”. Clear the field “Table or job” to see them.`
    : `Domain “${domain}” has no table to show: none is registered yet, or none is of a DAG that you may read. A table appears when a task of its job first runs.`;
  return h("div", { className: "ep-note", role: "status" }, why);
}

/* The view that is shown; each change is a step in the browser's history. */
function usePlace(first) {
  const [place, setPlace] = useState(first);
  useEffect(() => {
    const back = () => setPlace(fromAddress().place);
    globalThis.addEventListener("popstate", back);
    return () => globalThis.removeEventListener("popstate", back);
  }, []);
  const go = useCallback((next) => {
    globalThis.history.pushState(globalThis.history.state, "", addressOf(next));
    setPlace(next);
  }, []);
  return [place, go];
}

function Tabs({ place, go }) {
  const tab = (view, label) => h(ViewLink, { key: label, place: { view, name: "" }, go, "aria-current": place.view === view ? "page" : undefined }, label);
  return h("nav", { className: "ep-tabs", "aria-label": "Views" }, tab("", "Epochs"), tab("restatements", "Restatements"));
}

function Bar({ asked, known, shownDomain, connections, place, set }) {
  const { connection, span, to, words, refresh } = asked;
  const grid = !place.view;
  return h("div", { className: "ep-bar" },
    connections && connections.connections.length > 1
      ? h(Choice, { label: "Connection", value: connection, options: connections.connections, onChange: set.connection }) : null,
    h(Choice, { label: "Domain", value: shownDomain, options: known.includes(shownDomain) ? known : [shownDomain, ...known], onChange: set.domain }),
    grid ? h(Choice, { label: "Range", value: span, options: SPANS.map((one) => ({ label: one.label, value: String(one.hours) })), onChange: set.span }) : null,
    grid ? h(Text, { label: "Up to (UTC; empty: latest)", type: "datetime-local", value: to, onChange: set.to }) : null,
    grid ? h(Text, { label: "Table or job", type: "search", value: words, placeholder: "all", onChange: set.words }) : null,
    h("label", { className: "ep-check" },
      h("input", { type: "checkbox", checked: refresh, onChange: (event) => set.refresh(event.target.checked) }), "refresh every 5 s"));
}

/* The grid of tables and epochs, with the epoch that was chosen below it. */
function Grid({ answer, error, query, words, refresh, go }) {
  const [chosen, setChosen] = useState(null);
  useEffect(() => setChosen(null), [query.conn_id, query.domain]);
  const grid = useMemo(() => answer && { ...answer, rows: answer.rows.filter((row) => matches(row, words)) }, [answer, words]);
  const choose = useCallback((row, cell) => setChosen({ table: row.table, job: row.job, start: cell.start, end: cell.end }), []);
  const row = chosen && answer?.rows.find((one) => one.table === chosen.table);
  const cell = row && row.cells.find((one) => one.start === chosen.start);
  const close = () => {
    document.querySelector(".ep-cell[aria-pressed=true]")?.focus();
    setChosen(null);
  };
  useEffect(() => {
    const escape = (event) => event.key === "Escape" && chosen && close();
    document.addEventListener("keydown", escape);
    return () => document.removeEventListener("keydown", escape);
  }, [chosen]);
  return h(Fragment, null,
    h(Legend),
    error ? h(Problem, { error }) : null,
    !answer && !error ? h("div", { className: "ep-note", role: "status" }, "Asking the metadata store …") : null,
    grid && !grid.rows.length && !error ? h(Nothing, { domain: query.domain, words, tables: answer.rows.length }) : null,
    grid && grid.rows.length ? h(Rows, { grid, chosen, choose, go }) : null,
    grid && grid.left_out ? h("div", { className: "ep-note" }, "Earlier epochs are not shown; choose a shorter range.") : null,
    grid && grid.more ? h("div", { className: "ep-note", role: "status" }, "Not all tables are shown; name a table or job.") : null,
    chosen ? h(Detail, { chosen, row, cell, query, refresh, close, go }) : null);
}

function Epochs() {
  const asked = useMemo(fromAddress, []);
  const [connection, setConnection] = useState(asked.connection);
  const [domain, setDomain] = useState(asked.domain);
  const [span, setSpan] = useState(asked.span);
  const [to, setTo] = useState(asked.to);
  const [words, setWords] = useState(asked.words);
  const [refresh, setRefresh] = useState(true);
  const [place, go] = usePlace(asked.place);

  const [connections, noConnections] = useAnswer("connections", {}, false);
  const [domains, noDomains] = useAnswer("domains", { conn_id: connection }, refresh);
  const known = domains?.domains ?? [];
  const shownDomain = domain || known[0] || "default";
  const query = { conn_id: connection, domain: shownDomain };
  const ready = domain || domains;
  const [many, setMany] = useState(false);
  const asks = { ...query, end: to && `${to}Z`, hours: String(span), words: many ? words : "" };
  const [answer, problem] = useAnswer("grid", ready && !place.view ? asks : null, refresh);
  useEffect(() => {
    if (answer?.more) setMany(true);
  }, [answer]);
  useEffect(() => toAddress({ connection, domain, to, span, words, place }), [connection, domain, to, span, words, place]);
  const elsewhere = (change) => (value) => {
    change(value);
    if (place.name) go({ view: "restatements", name: "" });
  };
  const set = {
    connection: elsewhere((value) => (setConnection(value), setDomain(""))), domain: elsewhere(setDomain), span: setSpan, to: setTo, words: setWords, refresh: setRefresh,
  };
  const error = noConnections ?? noDomains;
  const view = { query: ready ? query : null, refresh, go };

  return h("div", { className: "ep" },
    h("style", null, CSS),
    h("div", { className: "ep-top" },
      h("h1", null, place.view ? "Restatements" : "Tables × epochs"),
      answer ? h("div", { className: "ep-head" }, `CSN ${answer.csn} · as of ${clock(answer.now)} UTC · all times are UTC`)
        : place.view ? h("div", { className: "ep-head" }, "all times are UTC") : null),
    h(Tabs, { place, go }),
    h(Bar, { asked: { connection, span, to, words, refresh }, known, shownDomain, connections, place, set }),
    place.view && error ? h(Problem, { error }) : null,
    !place.view ? h(Grid, { answer, error: error ?? problem, query, words, refresh, go })
      : place.name ? h(Restatement, { ...view, name: place.name, key: place.name }) : h(Restatements, view));
}

globalThis.Epochs = Epochs;
