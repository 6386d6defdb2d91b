/* The jobs, tables and sources of a domain as a graph. The server says where each node stands; the browser draws. */

import { calendar } from "./looks.js";
import { Problem, ViewLink } from "./parts.js";
import { useAnswer } from "./server.js";
import { count } from "./words.js";

const { createElement: h, Fragment, useMemo } = globalThis.React;

const [NODE_W, NODE_H, GAP_X, GAP_Y, EDGE] = [190, 46, 70, 18, 14];

function drawing(graph) {
  const heights = new Map();
  for (const node of graph.nodes) heights.set(node.column, Math.max(heights.get(node.column) ?? 0, node.place + 1));
  const tallest = Math.max(1, ...heights.values());
  // Columns with fewer nodes stand in the middle, so that arrows are short.
  const at = (node) => ({
    x: EDGE + node.column * (NODE_W + GAP_X),
    y: EDGE + (node.place + (tallest - heights.get(node.column)) / 2) * (NODE_H + GAP_Y),
  });
  const placed = new Map(graph.nodes.map((node) => [node.id, { ...node, ...at(node) }]));
  const columns = Math.max(0, ...graph.nodes.map((node) => node.column)) + 1;
  return { placed, width: 2 * EDGE + columns * (NODE_W + GAP_X) - GAP_X, height: 2 * EDGE + tallest * (NODE_H + GAP_Y) - GAP_Y };
}

function Arrow({ arrow, placed }) {
  const [from, to] = [placed.get(arrow.start), placed.get(arrow.end)];
  const back = to.column <= from.column;
  const [x1, y1] = [from.x + NODE_W, from.y + NODE_H / 2];
  const [x2, y2] = back ? [to.x + NODE_W, to.y + NODE_H / 2 + 8] : [to.x, to.y + NODE_H / 2];
  const bend = back ? GAP_X * 0.8 : (x2 - x1) / 2;
  const path = `M ${x1} ${y1} C ${x1 + bend} ${y1}, ${back ? x2 + bend : x2 - bend} ${y2}, ${x2} ${y2}`;
  return h("path", { className: `ep-arrow${arrow.past ? " ep-past" : ""}`, d: path, markerEnd: "url(#ep-head)" },
    h("title", null, `${from.name} to ${to.name}${arrow.label ? `: ${arrow.label}` : ""}`));
}

/* As much of a text as a node has room for; its title has all of it. */
function short(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function Node({ node, go }) {
  const about = node.kind === "job" ? calendar(node.about) : node.about;
  const words = [node.name, node.kind, about, node.retired && `retired: ${node.retired}`].filter(Boolean).join(", ");
  const link = node.kind !== "source";
  const box = h("g", { className: `ep-node ep-is-${node.kind}${node.retired ? " ep-ended" : ""}`, transform: `translate(${node.x} ${node.y})` },
    h("title", null, words),
    h("rect", { width: NODE_W, height: NODE_H, rx: node.kind === "table" ? NODE_H / 2 : 4 }),
    h("text", { x: NODE_W / 2, y: 20 }, short(node.name, 21)),
    h("text", { className: "ep-about", x: NODE_W / 2, y: 36 }, short(node.retired ? "retired" : `${node.kind === "source" ? "source, " : ""}${about}`, 30)));
  return link ? h(ViewLink, { place: { view: "", name: "", words: node.name }, go, "aria-label": `${words}: show its epochs` }, box) : box;
}

/* The same for screen readers, and for who searches the page: a line for each job. */
function Lines({ graph }) {
  const names = new Map(graph.nodes.map((node) => [node.id, node]));
  const jobs = graph.nodes.filter((node) => node.kind === "job");
  const list = (found) => found.map(([node, label]) => (label ? `${node.name} (${label})` : node.name)).join(", ") || "nothing";
  const reads = (job) => list(graph.arrows.filter((one) => one.end === job.id).map((one) => [names.get(one.start), one.label]));
  const writes = (job) => list(graph.arrows.filter((one) => one.start === job.id).map((one) => [names.get(one.end), ""]));
  return h("details", { className: "ep-note" }, h("summary", null, "As a list"),
    h("div", { className: "ep-table ep-narrow" }, h("table", { "aria-label": "Jobs, what they read and write" },
      h("thead", null, h("tr", null, ["Job", "Calendar", "Reads", "Writes"].map((one) => h("th", { key: one, scope: "col" }, one)))),
      h("tbody", null, jobs.map((job) => h("tr", { key: job.id },
        h("th", { scope: "row" }, job.name), h("td", null, job.retired ? `retired: ${job.retired}` : calendar(job.about)), h("td", null, reads(job)), h("td", null, writes(job))))))));
}

export function Topology({ query, refresh, go }) {
  const [graph, error] = useAnswer("topology", query, refresh);
  const drawn = useMemo(() => graph && drawing(graph), [graph]);
  const none = graph && !graph.nodes.length;
  return h("div", { className: "ep-view" },
    error ? h(Problem, { error }) : null,
    !graph && !error ? h("div", { className: "ep-note", role: "status" }, "Asking the metadata store …") : null,
    none ? h("div", { className: "ep-note", role: "status" }, `Domain “${graph.domain}” has no job to show: none is registered yet, or none is of a DAG that you may read.`) : null,
    graph && !none ? h(Fragment, null,
      h("p", { className: "ep-hint" }, `${count(graph.jobs, "job")}. Boxes are jobs, rounded boxes tables; a dashed arrow reads the past only. A click shows the epochs.`,
        graph.more ? " Not all jobs are drawn." : ""),
      h("div", { className: "ep-graph", tabIndex: 0, role: "region", "aria-label": "Topology" },
        h("svg", { width: drawn.width, height: drawn.height, viewBox: `0 0 ${drawn.width} ${drawn.height}`, role: "group", "aria-label": "Graph of jobs and tables" },
          h("defs", null, h("marker", { id: "ep-head", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto-start-reverse" }, h("path", { className: "ep-tip", d: "M 0 0 L 8 4 L 0 8 z" }))),
          graph.arrows.map((arrow, index) => h(Arrow, { key: index, arrow, placed: drawn.placed })),
          [...drawn.placed.values()].map((node) => h(Node, { key: node.id, node, go })))),
      h(Lines, { graph })) : null);
}
