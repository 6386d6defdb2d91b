/* The page of tables and epochs: a function component on the React that Airflow's UI provides; no build step. */

const { createElement: h, useCallback, useEffect, useMemo, useRef, useState } = globalThis.React;

const BASE = new URL("../", import.meta.url);
const REFRESH_MS = 5000;
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

/* Surfaces and text are Airflow's own; what stands behind each comma is for a version that names them otherwise. */
const CSS = `
.ep { --ep-fg: var(--chakra-colors-fg, #1f2328); --ep-dim: var(--chakra-colors-fg-muted, #59636e);
  --ep-bg: var(--chakra-colors-bg, #ffffff); --ep-alt: var(--chakra-colors-bg-subtle, #f6f8fa);
  --ep-line: var(--chakra-colors-border-emphasized, #d1d9e0); --ep-due: #b6c0cc;
  --ep-commit: #2a8149; --ep-commit-fg: #ffffff; --ep-revised: #175a36; --ep-revised-fg: #ffffff; --ep-open: #f2b53a;
  --ep-open-fg: #3b2a00; --ep-stripe: #dc9a17; --ep-precommit: #2f6bcb; --ep-precommit-fg: #ffffff;
  --ep-aborted: #c0332a; --ep-aborted-fg: #ffffff; --ep-missing: #8a5200; --ep-focus: #0969da;
  color: var(--ep-fg); background: var(--ep-bg); font-size: 14px; line-height: 1.4; padding: 16px 20px; height: 100%;
  display: flex; flex-direction: column; gap: 14px; box-sizing: border-box; overflow: auto; }
.dark .ep { color-scheme: dark; --ep-fg: var(--chakra-colors-fg, #e6edf3); --ep-dim: var(--chakra-colors-fg-muted, #9da7b3);
  --ep-bg: var(--chakra-colors-bg, #0d1117); --ep-alt: var(--chakra-colors-bg-muted, #161b22);
  --ep-line: var(--chakra-colors-border-emphasized, #30363d); --ep-due: #55617a;
  --ep-commit: #2ea35a; --ep-commit-fg: #04140a; --ep-revised: #8be3a9; --ep-revised-fg: #04140a; --ep-open: #e3a72f;
  --ep-open-fg: #1f1600; --ep-stripe: #bd861b; --ep-precommit: #6ea8fe; --ep-precommit-fg: #04122b;
  --ep-aborted: #ff7b72; --ep-aborted-fg: #2b0500; --ep-missing: #f0b955; --ep-focus: #58a6ff; }
.ep h1 { font-size: 20px; font-weight: 600; margin: 0; }
.ep h2 { font-size: 16px; font-weight: 600; margin: 0; }
.ep p { margin: 4px 0 0; overflow-wrap: anywhere; }
.ep-top { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: baseline; gap: 4px 16px; }
.ep-bar { display: flex; flex-wrap: wrap; gap: 12px; align-items: end; }
.ep-bar label { display: flex; flex-direction: column; font-size: 12px; color: var(--ep-dim); gap: 2px; }
.ep-bar label.ep-check { flex-direction: row; align-items: center; gap: 6px; padding-bottom: 6px; }
.ep-bar input:not([type=checkbox]), .ep-bar select, .ep-button { color: var(--ep-fg); background: var(--ep-bg);
  border: 1px solid var(--ep-line); border-radius: 6px; padding: 4px 8px; font-size: 14px; height: 32px; }
.ep-button { cursor: pointer; }
.ep-head { color: var(--ep-dim); font-size: 12px; font-variant-numeric: tabular-nums; }
.ep-bar :is(input, select):focus-visible, .ep-button:focus-visible, .ep a:focus-visible, .ep-scroll:focus-visible {
  outline: 2px solid var(--ep-focus); outline-offset: 1px; }
.ep-bar select { max-width: 260px; }
.ep-legend { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 12px; color: var(--ep-dim); }
.ep-legend span { display: inline-flex; align-items: center; gap: 6px; }
.ep-swatch { position: relative; width: 16px; height: 16px; border-radius: 3px; display: inline-flex; align-items: center;
  justify-content: center; font-size: 10px; font-weight: 600; box-sizing: border-box; }
.ep-scroll { overflow: auto; border: 1px solid var(--ep-line); border-radius: 6px; flex: 0 1 auto; }
.ep-row { display: flex; border-top: 1px solid var(--ep-line); min-width: max-content; }
.ep-row:first-child { border-top: none; }
.ep-name { position: sticky; left: 0; z-index: 2; background: var(--ep-bg); width: 230px; flex: none; padding: 6px 10px;
  border-right: 1px solid var(--ep-line); box-sizing: border-box; }
.ep-name b { font-weight: 600; overflow-wrap: anywhere; }
.ep-name small { display: block; color: var(--ep-dim); font-size: 11px; overflow-wrap: anywhere; }
.ep-track { position: relative; flex: none; min-height: 52px; }
.ep-axis { background: var(--ep-alt); } .ep-axis .ep-name { background: var(--ep-alt); font-size: 12px; color: var(--ep-dim); }
.ep-axis .ep-track { min-height: 28px; }
.ep-tick { position: absolute; top: 0; bottom: 0; border-left: 1px solid var(--ep-line); padding: 4px 0 0 4px; font-size: 11px;
  color: var(--ep-dim); white-space: nowrap; pointer-events: none; }
.ep-cell { position: absolute; top: 10px; height: 32px; border-radius: 3px; border: none; padding: 0; cursor: pointer; overflow: hidden;
  font-size: 11px; font-weight: 600; box-sizing: border-box; display: flex; align-items: center; justify-content: center;
  white-space: nowrap; scroll-margin-left: 240px; }
.ep-cell:hover, .ep-cell:focus-visible, .ep-cell[aria-pressed=true] { outline: 2px solid var(--ep-focus); outline-offset: 1px; z-index: 1; }
.ep-commit { background: var(--ep-commit); color: var(--ep-commit-fg); }
.ep-revised { background: var(--ep-revised); color: var(--ep-revised-fg); }
.ep-open { background: var(--ep-open); color: var(--ep-open-fg); }
.ep-precommit { background: var(--ep-precommit); color: var(--ep-precommit-fg); }
.ep-silent { color: var(--ep-open-fg); border: 2px solid var(--ep-aborted);
  background: repeating-linear-gradient(45deg, var(--ep-stripe) 0 5px, var(--ep-open) 5px 10px); }
.ep-aborted { background: var(--ep-aborted); color: var(--ep-aborted-fg); }
.ep-skipped { background: var(--ep-bg); color: var(--ep-commit); border: 2px dashed var(--ep-commit); }
.ep-check-failed { background: var(--ep-bg); color: var(--ep-aborted); border: 2px solid var(--ep-aborted); }
.ep-due { background: transparent; color: var(--ep-dim); border: 1px dashed var(--ep-dim); font-weight: 400; }
.ep-expired { background: var(--ep-bg); color: var(--ep-dim); border: 2px solid var(--ep-dim); border-left: 6px solid var(--ep-commit); }
.ep-swatch.ep-expired { border-width: 1px 1px 1px 4px; }
.ep-missing { background: var(--ep-bg); color: var(--ep-missing); border: 2px dotted var(--ep-missing); }
.ep-hidden { background: var(--ep-alt); color: var(--ep-dim); border: 1px solid var(--ep-line); font-weight: 400; }
.ep-thin:is(.ep-due, .ep-hidden) { border: none; background: var(--ep-due); top: 22px; height: 8px; }
.ep-thin:is(.ep-skipped, .ep-check-failed) { border-width: 1px; border-style: solid; }
.ep-thin.ep-expired { border: none; background: linear-gradient(var(--ep-commit) 25%, var(--ep-due) 25%); }
.ep-thin.ep-silent { border: none; background: linear-gradient(var(--ep-aborted) 50%, var(--ep-open) 50%); }
.ep-thin.ep-missing { border: none; background: repeating-linear-gradient(var(--ep-missing) 0 4px, transparent 4px 7px); }
.ep-none { position: sticky; left: 240px; display: inline-block; padding: 16px 10px; font-size: 12px; color: var(--ep-dim); }
.ep-over { box-shadow: inset 0 6px 0 var(--ep-commit); }
.ep-mark { position: absolute; top: 0; bottom: 0; width: 0; border-left: 2px solid var(--ep-focus); pointer-events: none; }
.ep-note { border: 1px solid var(--ep-line); border-radius: 6px; padding: 12px; background: var(--ep-alt); }
.ep-error { border-color: var(--ep-aborted); }
.ep-detail dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 8px 0; }
.ep-detail dt { color: var(--ep-dim); } .ep-detail dd { margin: 0; overflow-wrap: anywhere; }
.ep-log { overflow-x: auto; }
.ep-detail table { border-collapse: collapse; width: 100%; font-size: 12px; font-variant-numeric: tabular-nums; }
.ep-detail th, .ep-detail td { text-align: left; padding: 3px 12px 3px 0; border-top: 1px solid var(--ep-line); vertical-align: top; }
.ep-detail th { color: var(--ep-dim); font-weight: 500; }
.ep-detail a { color: var(--ep-focus); text-decoration: underline; }
.ep-title { display: flex; justify-content: space-between; align-items: center; gap: 12px; }
`;

/* --- words ----------------------------------------------------------------------------------------------- */

const pad = (number) => String(number).padStart(2, "0");

function moment(text) {
  if (!text) return "–";
  const at = new Date(text);
  return `${day(at)} ${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())}`;
}

function clock(text) {
  const at = new Date(text);
  return `${moment(text)}:${pad(at.getUTCSeconds())}.${String(at.getUTCMilliseconds()).padStart(3, "0")}`;
}

function day(at) {
  return `${at.getUTCFullYear()}-${pad(at.getUTCMonth() + 1)}-${pad(at.getUTCDate())}`;
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, bytes > 0 ? Math.floor(Math.log2(bytes) / 10) : 0);
  return `${(bytes / 1024 ** power).toFixed(power ? 1 : 0)} ${units[power]}`;
}

function count(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

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
  return `${row.table}, ${moment(cell.start)} to ${moment(cell.end)} UTC: ${label}${progress(cell)}${revision}${over}`;
}

/* --- talking to the server --------------------------------------------------------------------------------- */

const TITLES = {
  StoreUnavailable: "The metadata store does not answer",
  StoreIncompatible: "The metadata store cannot be used",
  UnknownName: "There is no such thing here",
  InvalidInput: "This cannot be shown",
};

/* An error as the page shows it: what is wrong, in whose words, and what to do. */
function refusal(answer, body) {
  if (answer.status === 401) return { title: "You are signed out", message: "Airflow asks who you are.", nextStep: "reload the page and sign in." };
  const detail = Array.isArray(body.detail) ? body.detail.map((one) => `${one.loc?.at(-1)}: ${one.msg}`).join("; ") : body.detail;
  return {
    title: TITLES[body.error] ?? "Airflow's API server refused the question",
    message: body.message ?? detail ?? `${answer.status} ${answer.statusText}`,
    nextStep: body.next_step ?? "",
  };
}

const NO_ANSWER = {
  title: "Airflow's API server does not answer", message: "What is shown is as old as it says.",
  nextStep: "wait, or look whether the server runs; the page asks again by itself.",
};

async function ask(path, query, signal) {
  const url = new URL(`api/${path}`, BASE);
  for (const [name, value] of Object.entries(query)) if (value) url.searchParams.set(name, value);
  const answer = await fetch(url, { credentials: "same-origin", headers: { Accept: "application/json" }, signal }).catch(() => null);
  if (!answer) return { error: NO_ANSWER };
  const body = await answer.json().catch(() => ({}));
  return answer.ok ? { body } : { error: refusal(answer, body) };
}

/* Ask again whenever the question changes and, when wanted, some seconds after the last answer came: one request is under
   way at a time, and one whose answer nobody waits for any more is given up. The last answer to a question stays while it is
   asked again, also when that fails or brings nothing new; of another question nothing stays. */
function useAnswer(path, query, refresh) {
  const [known, setKnown] = useState({});
  const question = query === null ? null : JSON.stringify(query);
  useEffect(() => {
    if (question === null) return undefined;
    const given = new AbortController();
    let [timer, tag] = [null, ""];
    const once = async () => {
      if (!document.hidden || !tag) {
        const { body, error } = await ask(path, { ...JSON.parse(question), since: tag }, given.signal);
        if (given.signal.aborted) return;
        tag = body?.tag ?? tag;
        const news = body && !body.unchanged ? body : null;
        setKnown((last) => ({ question, body: news ?? (last.question === question ? last.body : null), error }));
      }
      if (refresh) timer = setTimeout(once, REFRESH_MS);
    };
    once();
    return () => {
      given.abort();
      clearTimeout(timer);
    };
  }, [path, question, refresh]);
  return known.question === question ? [known.body ?? null, known.error ?? null] : [null, null];
}

/* --- parts of the page ------------------------------------------------------------------------------------- */

function Choice({ label, value, options, onChange }) {
  return h("label", null, label,
    h("select", { value, onChange: (event) => onChange(event.target.value) },
      options.map((one) => h("option", { key: one.value ?? one, value: one.value ?? one }, one.label ?? one))));
}

function Text({ label, onChange, ...rest }) {
  return h("label", null, label, h("input", { ...rest, onChange: (event) => onChange(event.target.value) }));
}

function Problem({ error }) {
  return h("div", { className: "ep-note ep-error", role: "alert" },
    h("h2", null, error.title),
    h("p", null, error.message),
    error.nextStep ? h("p", null, h("b", null, "What to do: "), error.nextStep) : null);
}

function Legend() {
  return h("div", { className: "ep-legend", role: "group", "aria-label": "Legend" },
    LOOKS.map((one) => h("span", { key: one.id, title: one.hint },
      h("i", { className: `ep-swatch ep-${one.id}`, style: { fontStyle: "normal" } }, one.mark), one.label)),
    h("span", { title: "an attempt at a further revision; readers still get the committed one" },
      h("i", { className: "ep-swatch ep-open ep-over" }), "computed again, the committed one stays"),
    h("span", null, h("i", { className: "ep-swatch", style: { borderLeft: "2px solid var(--ep-focus)", borderRadius: 0, width: 4 } }),
      "watermark"));
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

function Rows({ grid, chosen, choose }) {
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
      h("div", { className: "ep-track", style: { width: scale.width }, role: "group", "aria-label": `Epochs of ${row.table}`, onKeyDown: move },
        row.cells.map((cell, index) => {
          const here = chosen?.table === row.table && chosen.start === cell.start;
          const reached = chosen?.table === row.table ? here : index === row.cells.length - 1;
          return h(Cell, { key: cell.start, row, cell, scale, choose, chosen: here, reached });
        }),
        row.cells.length ? null : h("span", { className: "ep-none" }, "no epoch in this range"),
        row.watermark && scale.at(row.watermark) >= 0 && scale.at(row.watermark) <= scale.width
          ? h("i", { className: "ep-mark", style: { left: scale.at(row.watermark) } }) : null))));
}

/* Whoever works outside Airflow names itself where a DAG's id stands, by what no DAG can be called. */
function runLink(owner) {
  if (!/^[\p{L}\p{N}_.-]+$/u.test(owner.dag_id)) return `${owner.dag_id} / ${owner.run_id}`;
  const path = `dags/${encodeURIComponent(owner.dag_id)}/runs/${encodeURIComponent(owner.run_id)}`;
  return h("a", { href: new URL(path, document.baseURI).href }, `${owner.dag_id} / ${owner.run_id}`);
}

function Log({ entries }) {
  return h("div", { className: "ep-log" }, h("table", null,
    h("thead", null, h("tr", null, ["Time (UTC)", "State", "Table", "Token", "Rows", "By", "Note"].map((one) => h("th", { key: one }, one)))),
    h("tbody", null, entries.map((one, index) => h("tr", { key: index },
      h("td", null, clock(one.at)), h("td", null, one.state), h("td", null, one.sink || "all"), h("td", null, one.token),
      h("td", null, one.rows ?? ""), h("td", null, runLink(one.owner), ` generation ${one.owner.generation}, try ${one.owner.try_number}`),
      h("td", null, one.note))))));
}

function Detail({ chosen, row, cell, query, refresh, close }) {
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
    ["Next step", epoch && epoch.next_step],
    [cell?.expired ? "Was published" : "Readers get", done && `revision ${done.revision}: ${count(done.rows, "row")} in ${count(done.files, "file")}, ${size(done.size_bytes)}, CSN ${done.csn}, published ${clock(done.at)}`],
  ];
  return h("section", { className: "ep-note ep-detail", "aria-label": "Epoch", "aria-live": "polite" },
    h("div", { className: "ep-title" }, h("h2", null, row?.table ?? chosen.table),
      h("button", { type: "button", className: "ep-button", onClick: close }, "Close")),
    h("dl", null, facts.filter(([, value]) => value).flatMap(([name, value]) =>
      [h("dt", { key: name }, name), h("dd", { key: `${name}.` }, value)])),
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
  };
}

/* Keep the address at what is shown, so that it can be passed on. */
function toAddress({ connection, domain, to, span, words }) {
  const url = new URL(globalThis.location.href);
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

function Epochs() {
  const asked = useMemo(fromAddress, []);
  const [connection, setConnection] = useState(asked.connection);
  const [domain, setDomain] = useState(asked.domain);
  const [span, setSpan] = useState(asked.span);
  const [to, setTo] = useState(asked.to);
  const [words, setWords] = useState(asked.words);
  const [refresh, setRefresh] = useState(true);
  const [chosen, setChosen] = useState(null);

  const [connections, noConnections] = useAnswer("connections", {}, false);
  const [domains, noDomains] = useAnswer("domains", { conn_id: connection }, refresh);
  const known = domains?.domains ?? [];
  const shownDomain = domain || known[0] || "default";
  const query = { conn_id: connection, domain: shownDomain };
  const ready = domain || domains;
  const [many, setMany] = useState(false);
  const asks = { ...query, end: to && `${to}Z`, hours: String(span), words: many ? words : "" };
  const [answer, problem] = useAnswer("grid", ready ? asks : null, refresh);
  useEffect(() => {
    if (answer?.more) setMany(true);
  }, [answer]);
  const error = noConnections ?? noDomains ?? problem;
  useEffect(() => toAddress({ connection, domain, to, span, words }), [connection, domain, to, span, words]);

  const grid = useMemo(() => answer && { ...answer, rows: answer.rows.filter((row) => matches(row, words)) }, [answer, words]);
  const choose = useCallback((row, cell) => setChosen({ table: row.table, job: row.job, start: cell.start, end: cell.end }), []);
  const row = chosen && answer?.rows.find((one) => one.table === chosen.table);
  const cell = row && row.cells.find((one) => one.start === chosen.start);
  const close = () => {
    document.querySelector(".ep-cell[aria-pressed=true]")?.focus();
    setChosen(null);
  };
  const elsewhere = (set) => (value) => {
    set(value);
    setChosen(null);
  };

  return h("div", { className: "ep", onKeyDown: (event) => event.key === "Escape" && chosen && close() },
    h("style", null, CSS),
    h("div", { className: "ep-top" },
      h("h1", null, "Tables × epochs"),
      grid ? h("div", { className: "ep-head" }, `CSN ${grid.csn} · as of ${clock(grid.now)} UTC · all times are UTC`) : null),
    h("div", { className: "ep-bar" },
      connections && connections.connections.length > 1
        ? h(Choice, { label: "Connection", value: connection, options: connections.connections, onChange: elsewhere((value) => (setConnection(value), setDomain(""))) }) : null,
      h(Choice, { label: "Domain", value: shownDomain, options: known.includes(shownDomain) ? known : [shownDomain, ...known], onChange: elsewhere(setDomain) }),
      h(Choice, { label: "Range", value: span, options: SPANS.map((one) => ({ label: one.label, value: String(one.hours) })), onChange: setSpan }),
      h(Text, { label: "Up to (UTC; empty: latest)", type: "datetime-local", value: to, onChange: setTo }),
      h(Text, { label: "Table or job", type: "search", value: words, placeholder: "all", onChange: setWords }),
      h("label", { className: "ep-check" },
        h("input", { type: "checkbox", checked: refresh, onChange: (event) => setRefresh(event.target.checked) }), "refresh every 5 s")),
    h(Legend),
    error ? h(Problem, { error }) : null,
    !answer && !error ? h("div", { className: "ep-note", role: "status" }, "Asking the metadata store …") : null,
    grid && !grid.rows.length && !error ? h(Nothing, { domain: shownDomain, words, tables: answer.rows.length }) : null,
    grid && grid.rows.length ? h(Rows, { grid, chosen, choose }) : null,
    grid && grid.left_out ? h("div", { className: "ep-note" }, "Earlier epochs are not shown; choose a shorter range.") : null,
    grid && grid.more ? h("div", { className: "ep-note", role: "status" }, "Not all tables are shown; name a table or job.") : null,
    chosen ? h(Detail, { chosen, row, cell, query, refresh, close }) : null);
}

globalThis.Epochs = Epochs;
