/* The page of tables and epochs: a function component on the React that Airflow's UI provides; no build step. */

import { Grid } from "./grid.js";
import { addressOf, Choice, Problem, Text, ViewLink } from "./parts.js";
import { Restatement, Restatements } from "./restatements.js";
import { useAnswer } from "./server.js";
import { CSS } from "./style.js";
import { Topology } from "./topology.js";
import { clock, count } from "./words.js";

const { createElement: h, useCallback, useEffect, useMemo, useState } = globalThis.React;

const HOUR_MS = 3600_000;

const SPANS = [
  { label: "1 day", hours: 24 },
  { label: "3 days", hours: 72 },
  { label: "7 days", hours: 168 },
  { label: "30 days", hours: 720 },
  { label: "90 days", hours: 2160 },
  { label: "1 year", hours: 8784 },
  { label: "5 years", hours: 43920 },
];

/* The views, by their name in the address, with their titles. */
const VIEWS = { "": "Tables × epochs", topology: "Topology", restatements: "Restatements" };

function fromAddress() {
  const given = new URLSearchParams(globalThis.location.search);
  const [from, to] = [Date.parse(given.get("from") ?? ""), Date.parse(given.get("to") ?? "")];
  const asked = to > from ? (to - from) / HOUR_MS : 168;
  const span = SPANS.find((one) => one.hours >= asked) ?? SPANS.at(-1);
  return {
    connection: given.get("conn_id") ?? "", domain: given.get("domain") ?? "", span: String(span.hours),
    to: Number.isNaN(to) ? "" : new Date(to).toISOString().slice(0, 16), words: given.get("job") ?? given.get("table") ?? "",
    place: placeOf(given),
  };
}

function placeOf(given) {
  const name = given.get("restatement") ?? "";
  return { view: name ? "restatements" : VIEWS[given.get("view")] ? given.get("view") : "", name };
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
  return h("nav", { className: "ep-tabs", "aria-label": "Views" }, tab("", "Epochs"), tab("topology", "Topology"), tab("restatements", "Restatements"));
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

/* Words as they are once the typing pauses: each change asks the server. */
function useTyped(words) {
  const [typed, setTyped] = useState(words);
  useEffect(() => {
    const later = setTimeout(() => setTyped(words), 250);
    return () => clearTimeout(later);
  }, [words]);
  return typed;
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
  const typed = useTyped(words);
  const base = { ...query, end: to && `${to}Z`, hours: String(span), words: typed };
  const [answer, told] = useState(null);
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
      h("h1", null, VIEWS[place.view]),
      answer && !place.view ? h("div", { className: "ep-head" }, `${count(answer.total, "table")} · CSN ${answer.csn} · as of ${clock(answer.now)} UTC · all times are UTC`)
        : h("div", { className: "ep-head" }, "all times are UTC")),
    h(Tabs, { place, go }),
    h(Bar, { asked: { connection, span, to, words, refresh }, known, shownDomain, connections, place, set }),
    place.view && error ? h(Problem, { error }) : null,
    !place.view ? h(Grid, { base: ready ? base : null, error, query, words: typed, refresh, go, told })
      : place.view === "topology" ? h(Topology, { ...view, go: (next) => (setWords(next.words ?? words), go(next)) })
      : place.name ? h(Restatement, { ...view, name: place.name, key: place.name }) : h(Restatements, view));
}

globalThis.Epochs = Epochs;
