/* The grid of tables and epochs. Only what is on the screen is asked for and drawn, whatever the domain has. */

import { Detail } from "./drawer.js";
import { calendar, inWords, isPublished, Legend, look, mark } from "./looks.js";
import { Problem, ViewLink } from "./parts.js";
import { useAnswer } from "./server.js";
import { count, day, moment, pad } from "./words.js";

const { createElement: h, Fragment, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } = globalThis.React;

const MIN_CELL_PX = 6;
const THIN_PX = 12;
const NAME_PX = 230;
const ROW_PX = 80;
const AXIS_PX = 28;
const HOUR_MS = 3600_000;
const DAY_MS = 24 * HOUR_MS;
const [BESIDE_ROWS, BESIDE_PX] = [2, 120];
/* Rows and pixels that are drawn beyond the screen, so that a short scroll shows no gap. */
const STEP_ROWS = 5;
const SETTLED_MS = 80;

/* Pixels for times: a few at least for the shortest epoch, never less than there is room. */
function scaleOf(grid, room) {
  const [start, end] = [Date.parse(grid.start), Date.parse(grid.end)];
  const span = Math.max(1, end - start);
  const perMs = Math.max(room / span, MIN_CELL_PX / (grid.shortest_s * 1000));
  return { start, span, width: span * perMs, at: (time) => (Date.parse(time) - start) * perMs, to: (px) => start + px / perMs, perMs };
}

/* Part of the grid that the screen shows, and the part to be asked for: wider, and in steps, so that it is asked for seldom. */
function seen(view, scale, total) {
  const rows = [Math.floor(view.top / ROW_PX), Math.ceil((view.top + view.height - AXIS_PX) / ROW_PX)];
  const times = [view.left, view.left + view.width - NAME_PX].map((px) => Math.min(Math.max(px, 0), scale.width));
  return { rows: [Math.max(0, Math.min(rows[0], total - 1)), Math.min(rows[1], total)], times };
}

function asked({ rows, times }, scale, total) {
  const quarter = Math.max(1, (times[1] - times[0]) / 4);
  const from = Math.max(0, Math.floor((times[0] - quarter / 2) / quarter) * quarter);
  const to = Math.ceil((times[1] + quarter / 2) / quarter) * quarter;
  const offset = Math.max(0, Math.floor((rows[0] - BESIDE_ROWS) / STEP_ROWS) * STEP_ROWS);
  const limit = Math.min(100, Math.ceil((rows[1] + BESIDE_ROWS - offset) / STEP_ROWS) * STEP_ROWS);
  const ask = { offset: String(offset), limit: String(Math.max(STEP_ROWS, Math.min(limit, Math.ceil(total / STEP_ROWS) * STEP_ROWS))) };
  if (from > 0) ask.from = new Date(scale.to(from)).toISOString();
  else ask.from = new Date(scale.start).toISOString();
  // At the right edge no end is named, so that new epochs are part of the answer.
  if (to < scale.width) ask.to = new Date(scale.to(to)).toISOString();
  return ask;
}

function covers(grid, { rows, times }, scale) {
  const [from, to] = [scale.at(grid.from), scale.at(grid.to)];
  return grid.offset <= rows[0] && grid.offset + grid.rows.length >= Math.min(rows[1], grid.total) && from <= times[0] + 1 && to >= times[1] - 1;
}

function Axis({ scale, times }) {
  const steps = [HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS, DAY_MS, 2 * DAY_MS, 7 * DAY_MS, 28 * DAY_MS, 91 * DAY_MS, 364 * DAY_MS];
  const step = steps.find((one) => one * scale.perMs >= 90) ?? steps.at(-1);
  const ticks = [];
  const [from, to] = [scale.to(times[0] - BESIDE_PX), Math.min(scale.to(times[1] + BESIDE_PX), scale.start + scale.span)];
  for (let at = Math.ceil(Math.max(from, scale.start) / step) * step; at < to; at += step) ticks.push(at);
  return h("div", { className: "ep-row ep-axis", style: { width: NAME_PX + scale.width } },
    h("div", { className: "ep-name" }, "Table · UTC"),
    h("div", { className: "ep-track", style: { width: scale.width } },
      ticks.map((at) => h("span", { key: at, className: "ep-tick", style: { left: (at - scale.start) * scale.perMs } },
        step < DAY_MS && new Date(at).getUTCHours() ? `${pad(new Date(at).getUTCHours())}:00` : day(new Date(at))))));
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
    "data-middle": left + width / 2,
  }, mark(row, cell, width));
}

/* Members of one open restatement that follow each other in a row. */
function marks(cells) {
  const found = [];
  for (const cell of cells) {
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

function Name({ row }) {
  const kind = `${row.job} · ${calendar(row.cadence)}${row.kind === "full" ? " · full table" : ""}`;
  const complete = row.watermark ? `complete to ${moment(row.watermark)}` : "nothing complete yet";
  const over = row.retired ? `retired: ${row.retired}` : row.inactive ? `inactive since ${moment(row.inactive)}: readers do not wait for it` : "";
  return h("div", { className: "ep-name", title: [row.table, kind, complete, over].filter(Boolean).join("\n") },
    h("b", null, row.table), h("small", null, kind), h("small", null, complete), over ? h("small", null, over) : null);
}

function Row({ row, index, scale, times, chosen, choose, go, onKeyDown }) {
  const [from, to] = [times[0] - BESIDE_PX, times[1] + BESIDE_PX];
  const cells = row.cells.filter((cell) => scale.at(cell.end) > from && scale.at(cell.start) < to);
  const mine = chosen?.table === row.table && cells.some((cell) => cell.start === chosen.start);
  return h("div", { className: "ep-row", style: { top: index * ROW_PX, height: ROW_PX, width: NAME_PX + scale.width }, "data-index": index },
    h(Name, { row }),
    h("div", { className: "ep-track", style: { width: scale.width }, role: "group", "aria-label": `Epochs of ${row.table}`, onKeyDown },
      cells.map((cell, number) => {
        const here = chosen?.table === row.table && chosen.start === cell.start;
        return h(Cell, { key: cell.start, row, cell, scale, choose, chosen: here, reached: mine ? here : number === cells.length - 1 });
      }),
      marks(row.cells).map((one) => h(Mark, { key: one.start, mark: one, scale, go })),
      row.cells.length ? null : h("span", { className: "ep-none" }, "no epoch in this range"),
      row.watermark && scale.at(row.watermark) >= 0 && scale.at(row.watermark) <= scale.width
        ? h("i", { className: "ep-mark", style: { left: scale.at(row.watermark) } }) : null));
}

/* Size and scroll of the frame, as often as the browser paints. */
function useView(frame) {
  const [view, setView] = useState(null);
  const look = useCallback(() => {
    const { scrollTop: top, scrollLeft: left, clientWidth: width, clientHeight: height } = frame.current;
    setView((last) => (last && last.top === top && last.left === left && last.width === width && last.height === height ? last : { top, left, width, height }));
  }, []);
  useLayoutEffect(() => {
    look();
    const watcher = new ResizeObserver(look);
    watcher.observe(frame.current);
    return () => watcher.disconnect();
  }, []);
  return [view, look];
}

/* Keys lead from epoch to epoch, also to those that are not drawn yet: the frame is scrolled, and the cell is focused once it is there. */
function useKeys(frame, grid, scale) {
  const wanted = useRef(null);
  const [, again] = useState(0);
  useEffect(() => {
    if (!wanted.current || !grid) return;
    const { index, px } = wanted.current;
    const row = frame.current.querySelector(`.ep-row[data-index="${index}"]`);
    const inAnswer = px >= scale.at(grid.from) - 1 && px <= scale.at(grid.to) + 1;
    const [left, right] = [frame.current.scrollLeft - BESIDE_PX, frame.current.scrollLeft + frame.current.clientWidth];
    if (!row || !inAnswer || px < left || px > right) return;
    const away = (cell) => Math.abs(Number(cell.dataset.middle) - px);
    const cells = [...row.querySelectorAll(".ep-cell")];
    const best = cells.reduce((one, other) => (one && away(one) <= away(other) ? one : other), null);
    wanted.current = null;
    best?.focus();
  });
  const reach = (index, px) => {
    const { current: one } = frame;
    wanted.current = { index, px };
    const [top, bottom] = [one.scrollTop, one.scrollTop + one.clientHeight - AXIS_PX - ROW_PX];
    const [left, right] = [one.scrollLeft, one.scrollLeft + one.clientWidth - NAME_PX];
    if (index * ROW_PX < top) one.scrollTop = index * ROW_PX;
    if (index * ROW_PX > bottom) one.scrollTop += index * ROW_PX - bottom;
    if (px < left || px > right) one.scrollLeft = px - (right - left) / 2;
    again((last) => last + 1);
  };
  return (event) => {
    const cells = [...event.currentTarget.querySelectorAll(".ep-cell")];
    const at = cells.indexOf(event.target);
    const index = Number(event.currentTarget.parentElement.dataset.index);
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: 0, End: 0, ArrowUp: 0, ArrowDown: 0 }[event.key];
    if (at < 0 || move === undefined) return;
    event.preventDefault();
    const middle = Number(event.target.dataset.middle);
    const beyond = middle + move * event.target.offsetWidth;
    const px = { Home: 0, End: scale.width }[event.key] ?? (move ? Number(cells[at + move]?.dataset.middle ?? beyond) : middle);
    const to = Math.min(Math.max(index + ({ ArrowUp: -1, ArrowDown: 1 }[event.key] ?? 0), 0), grid.total - 1);
    if (px >= 0 && px <= scale.width) reach(to, px);
  };
}

function Rows({ grid, scale, view, look, frame, chosen, choose, go }) {
  const visible = seen(view, scale, grid.total);
  const onKeyDown = useKeys(frame, grid, scale);
  const [first, last] = [Math.max(0, visible.rows[0] - BESIDE_ROWS), Math.min(grid.total, visible.rows[1] + BESIDE_ROWS)];
  const rows = [];
  for (let index = first; index < last; index += 1) {
    const row = grid.rows[index - grid.offset];
    rows.push(row
      ? h(Row, { key: row.table, row, index, scale, times: visible.times, chosen, choose, go, onKeyDown })
      : h("div", { key: index, className: "ep-row ep-later", style: { top: index * ROW_PX, height: ROW_PX, width: NAME_PX + scale.width } },
        h("div", { className: "ep-name" }, h("small", null, "…"))));
  }
  return h(Fragment, null,
    h(Axis, { scale, times: visible.times }),
    h("div", { className: "ep-rows", style: { height: grid.total * ROW_PX, width: NAME_PX + scale.width } }, rows));
}

function Nothing({ domain, words, tables }) {
  const why = tables
    ? `None of the ${tables} tables of domain “${domain}” matches “${words}”. Clear the field “Table or job” to see them.`
    : `Domain “${domain}” has no table to show: none is registered yet, or none is of a DAG that you may read. A table appears when a task of its job first runs.`;
  return h("div", { className: "ep-note", role: "status" }, why);
}

/* The answer to the newest question that has one: what is on the screen stays until the next part comes. */
function useGrid(base, part, refresh) {
  const [answer, error] = useAnswer("grid", base && { ...base, ...part }, refresh);
  const key = JSON.stringify(base);
  const [kept, setKept] = useState({});
  useEffect(() => {
    if (answer) setKept({ key, answer });
  }, [answer]);
  return [answer ?? (error ? null : kept.key === key ? kept.answer : null), error];
}

/* The grid, with the epoch that was chosen beside it. :param base: connection, domain, range and words. */
export function Grid({ base, error: before, query, words, refresh, go, told }) {
  const frame = useRef(null);
  const [chosen, setChosen] = useState(null);
  const [view, look] = useView(frame);
  const [part, setPart] = useState(null);
  const key = JSON.stringify(base);
  // The first part is the latest one: as many epochs and tables as fit, since the length of the range is not known yet.
  const latest = useMemo(() => view && {
    cells: String(Math.max(50, Math.ceil((view.width - NAME_PX) / MIN_CELL_PX))), limit: String(Math.ceil(globalThis.innerHeight / ROW_PX)),
  }, [view === null, key]);
  const now = part?.key === key ? part.ask : latest;
  const [grid, problem] = useGrid(base && now ? base : null, now, refresh);
  const error = before ?? problem;
  useEffect(() => {
    told(grid);
  }, [grid]);
  const scale = useMemo(() => grid && view && scaleOf(grid, Math.max(300, view.width - NAME_PX)), [grid?.start, grid?.end, grid?.shortest_s, view?.width]);
  // The latest epochs are seen first, and stay in sight while the end moves, unless another part is looked at.
  const edge = useRef({});
  useLayoutEffect(() => {
    if (!scale) return;
    const { current: one } = frame;
    const is = `${key} ${grid.start}`;
    if (edge.current.is !== is) one.scrollTop = 0;
    if (edge.current.is !== is || edge.current.atEnd) one.scrollLeft = one.scrollWidth;
    edge.current.is = is;
    look();
  }, [scale, key]);
  useEffect(() => {
    if (!scale || !view || !grid?.total) return undefined;
    edge.current.atEnd = view.left + view.width >= NAME_PX + scale.width - 2;
    const visible = seen(view, scale, grid.total);
    if (covers(grid, visible, scale)) return undefined;
    const later = setTimeout(() => setPart({ key, ask: asked(visible, scale, grid.total) }), SETTLED_MS);
    return () => clearTimeout(later);
  }, [view, scale, grid]);
  useEffect(() => setChosen(null), [query.conn_id, query.domain]);
  const choose = useCallback((row, cell) => setChosen({ table: row.table, job: row.job, start: cell.start, end: cell.end }), []);
  // The frame has become narrower: what was chosen stays in sight.
  useEffect(() => {
    document.querySelector(".ep-cell[aria-pressed=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [chosen, view?.width]);
  const row = chosen && grid?.rows.find((one) => one.table === chosen.table);
  const cell = row && row.cells.find((one) => one.start === chosen.start);
  const close = () => {
    document.querySelector(".ep-cell[aria-pressed=true]")?.focus();
    setChosen(null);
  };
  useEffect(() => {
    const escape = (event) => event.key === "Escape" && chosen && !document.querySelector("dialog[open]") && close();
    document.addEventListener("keydown", escape);
    return () => document.removeEventListener("keydown", escape);
  }, [chosen]);
  const some = Boolean(grid?.total);
  return h(Fragment, null,
    h(Legend),
    error ? h(Problem, { error }) : null,
    !grid && !error ? h("div", { className: "ep-note", role: "status" }, "Asking the metadata store …") : null,
    grid && !grid.total && !error ? h(Nothing, { domain: query.domain, words, tables: grid.tables }) : null,
    grid && grid.left_out ? h("div", { className: "ep-note" }, "Earlier epochs of this part are not shown: choose a shorter range, or name a table or job.") : null,
    h("div", { className: `ep-beside${some || chosen ? "" : " ep-away"}` },
      h("div", { className: "ep-scroll", ref: frame, onScroll: look, "aria-label": some ? count(grid.total, "table") : undefined, role: "region" },
        some && scale ? h(Rows, { grid, scale, view, look, frame, chosen, choose, go }) : null),
      chosen ? h(Detail, { key: `${chosen.job} ${chosen.start}`, chosen, row, cell, query, refresh, close, go }) : null));
}
