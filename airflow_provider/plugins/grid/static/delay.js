/* Delay of a table: how long after its end each epoch was published, as a plot, and how far the table is behind now. */

import { Facts, Problem } from "./parts.js";
import { useAnswer } from "./server.js";
import { count, duration, moment } from "./words.js";

const { createElement: h, Fragment } = globalThis.React;

/* No more epochs are counted. */
const MOST = 1000;
const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [440, 150, 64, 22, 8];

/* A delay at the edge of a readable step: 1, 2 or 5 of a unit. */
function ceiling(seconds) {
  const units = [1, 60, 3600, 86_400, 86_400 * 365];
  const unit = units.findLast((one) => one <= Math.max(1, seconds));
  const step = [1, 2, 5, 10, 15, 30, 60, 100, 200, 365, 1000].find((one) => one * unit >= seconds) ?? Math.ceil(seconds / unit);
  return step * unit;
}

function Plot({ epochs, table }) {
  const times = epochs.map((one) => Date.parse(one.end));
  const [first, last] = [times[0], times.at(-1)];
  const most = ceiling(Math.max(...epochs.map((one) => one.delay_s), 1));
  const x = (time) => LEFT + ((WIDTH - LEFT - 10) * (last > first ? (time - first) / (last - first) : 0.5));
  const y = (delay) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - Math.max(0, delay) / most);
  const points = epochs.map((one, index) => [x(times[index]), y(one.delay_s), one]);
  const sorted = epochs.map((one) => one.delay_s).sort((one, other) => one - other);
  const middle = sorted[Math.floor(sorted.length / 2)];
  const words = `Delay of ${table}, ${count(epochs.length, "epoch")} from ${moment(epochs[0].end)} to ${moment(epochs.at(-1).end)} UTC: median ${duration(middle)}, longest ${duration(sorted.at(-1))}`;
  return h("figure", { className: "ep-plot" },
    h("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words },
      [0, 0.5, 1].map((part) => h(Fragment, { key: part },
        h("line", { className: "ep-rule", x1: LEFT, x2: WIDTH - 10, y1: y(part * most), y2: y(part * most) }),
        part === 0.5 ? null : h("text", { className: "ep-label", x: LEFT - 6, y: y(part * most) + 4, textAnchor: "end" }, duration(part * most)))),
      points.length > 1 ? h("polyline", { className: "ep-line", points: points.map(([px, py]) => `${px},${py}`).join(" ") }) : null,
      points.map(([px, py, one]) => h("circle", { key: one.end, className: "ep-point", cx: px, cy: py, r: 2.5 },
        h("title", null, `${moment(one.end)} UTC: ${duration(one.delay_s)}, published ${moment(one.at)} UTC`))),
      h("text", { className: "ep-label", x: LEFT, y: HEIGHT - 6 }, moment(epochs[0].end)),
      epochs.length > 1 ? h("text", { className: "ep-label", x: WIDTH - 10, y: HEIGHT - 6, textAnchor: "end" }, moment(epochs.at(-1).end)) : null),
    h("figcaption", { className: "ep-hint" }, `Median ${duration(middle)}, longest ${duration(sorted.at(-1))}, of the latest ${count(epochs.length, "epoch")}.`));
}

export function Delay({ table, query, refresh }) {
  const [found, error] = useAnswer("delay", { ...query, table }, refresh);
  if (error) return h(Problem, { error });
  if (!found) return h("p", { className: "ep-hint", role: "status" }, "Asking the metadata store …");
  const { lag } = found;
  const held = lag.held_by;
  const facts = [
    ["Complete to", lag.complete_to && `${moment(lag.complete_to)} UTC`],
    ["Lacks", lag.lacking ? `${lag.lacking >= MOST ? "at least " : ""}${count(lag.lacking, "epoch")}, ${lag.ready} of them ready` : ""],
    ["Behind its inputs", lag.local_s ? duration(lag.local_s) : ""],
    ["Behind the sources", lag.global_s ? duration(lag.global_s) : ""],
    ["Behind the clock", lag.wall_clock_s ? duration(lag.wall_clock_s) : ""],
    ["End to end", lag.end_to_end_s ? duration(lag.end_to_end_s) : ""],
    ["Held back by", held && `${held.job}, ${moment(held.start)} to ${moment(held.end)} UTC${held.because ? `: ${held.because}` : ""}`],
  ];
  return h("section", { "aria-label": "Delay" },
    h("h3", null, "Lag and delay"),
    h(Facts, { facts }),
    found.epochs.length ? h(Plot, { epochs: found.epochs, table }) : h("p", { className: "ep-hint" }, "No epoch is committed yet."));
}
