/* Restatements of a domain: their list, one of them, and the decisions on it. */

import { Decisions } from "./decisions.js";
import { Choice, Facts, Problem, runLink, ViewLink } from "./parts.js";
import { ask, useAnswer } from "./server.js";
import { clock, count, moment, span } from "./words.js";

const { createElement: h, Fragment, useEffect, useState } = globalThis.React;

const STATES = ["staged", "outdated", "computing", "waiting"];
const HINTS = {
  staged: "computed; waits for the others", outdated: "staged, but what it has read has changed since: compute it again",
  computing: "a run computes it", waiting: "to be computed",
};

function Badge({ state }) {
  return h("span", { className: `ep-badge ep-badge-${state.replace(" ", "-")}`, title: HINTS[state] }, state);
}

/* Whether a published restatement stands no more: a revert of it is published. */
function isTakenBack(one) {
  return one.reverted_by?.state === "published";
}

function Head({ columns }) {
  return h("thead", null, h("tr", null, columns.map(([name, className]) => h("th", { key: name, scope: "col", className }, name))));
}

function Pages({ answer, set, noun }) {
  const size = Math.max(1, (answer.listed ?? answer.restatements).length);
  if (answer.total <= size && !answer.offset) return null;
  const last = answer.offset + (answer.listed ?? answer.restatements).length;
  return h("div", { className: "ep-acts", role: "group", "aria-label": "Pages" },
    h("button", { type: "button", className: "ep-button", disabled: !answer.offset, onClick: () => set(Math.max(0, answer.offset - answer.page)) }, "Previous"),
    h("span", { role: "status", className: "ep-hint" }, `${Math.min(answer.offset + 1, last)} to ${last} of ${count(answer.total, noun)}`),
    h("button", { type: "button", className: "ep-button", disabled: last >= answer.total, onClick: () => set(answer.offset + answer.page) }, "Next"));
}

/* How an approval stands; nothing where none is needed or given. */
function approval(one) {
  if (one.approved) return `by ${one.approved_by}`;
  if (one.approved_by) return `${one.approved_by} has approved other rows${one.needs_approval ? "; needed again" : ""}`;
  return one.needs_approval ? "needed" : "";
}

/* --- the list ---------------------------------------------------------------------------------------------- */

const COLUMNS = [["Restatement"], ["State"], ["Members"], ["Reason"], ["By"], ["Deadline (UTC)"], ["Approval"], ["CSN", "ep-number"]];

function Progress({ one }) {
  if (one.staged === null) return h(Fragment, null, count(one.epochs, "epoch"), h("small", null, `of ${count(one.jobs, "job")}`));
  const words = `${one.staged} of ${one.epochs} staged`;
  return h(Fragment, null, words, h("div", { className: "ep-bars", role: "img", "aria-label": words }, h("i", { style: { width: `${(100 * one.staged) / one.epochs}%` } })));
}

function Entry({ one, go }) {
  const over = one.state !== "open" && one.state !== "expired";
  return h("tr", null,
    h("th", { scope: "row" }, h(ViewLink, { place: { view: "restatements", name: one.name }, go }, one.name),
      one.reverts ? h("small", null, `takes ${one.reverts} back`) : null),
    h("td", null, h(Badge, { state: one.taken_back ? "taken back" : one.state })),
    h("td", { className: "ep-once" }, h(Progress, { one })),
    h("td", null, one.reason, one.ended ? h("small", null, `ended: ${one.ended}`) : null),
    h("td", null, one.by),
    h("td", { className: "ep-once" }, over ? "" : moment(one.deadline)),
    h("td", null, approval(one)),
    h("td", { className: "ep-number" }, one.csn ?? ""));
}

function Nothing({ answer }) {
  return h("div", { className: "ep-note", role: "status" },
    `Domain “${answer.domain}” has no restatement to show. A restatement computes committed epochs again, with all that have read them, and publishes them by one commit: `,
    h("code", null, answer.command), " opens one.");
}

export function Restatements({ query, refresh, go }) {
  const [offset, setOffset] = useState(0);
  const [answer, error] = useAnswer("restatements", query && { ...query, offset: String(offset) }, refresh);
  useEffect(() => setOffset(0), [query?.conn_id, query?.domain]);
  return h("div", { className: "ep-view" },
    error ? h(Problem, { error }) : null,
    !answer && !error ? h("div", { className: "ep-note", role: "status" }, "Asking the metadata store …") : null,
    answer && !answer.total ? h(Nothing, { answer }) : null,
    answer && answer.total ? h("div", { className: "ep-table", tabIndex: 0, role: "region", "aria-label": "Restatements" },
      h("table", null, h(Head, { columns: COLUMNS }), h("tbody", null, answer.restatements.map((one) => h(Entry, { key: one.name, one, go }))))) : null,
    answer ? h(Pages, { answer, set: setOffset, noun: "restatement" }) : null);
}

/* --- one of them ------------------------------------------------------------------------------------------- */

function epochs(one) {
  return `${one.job}: ${count(one.epochs, "epoch")}, ${span(one)}`;
}

function Lines({ lines }) {
  return h(Fragment, null, lines.map((line) => (line.startsWith("airflow ") ? h("code", { key: line }, line) : h("div", { key: line }, line))));
}

function What({ one, go }) {
  const other = (name) => h(ViewLink, { place: { view: "restatements", name }, go }, name);
  const jobs = one.members.length + one.jobs_hidden;
  const states = STATES.filter((state) => one.states[state]).map((state) => `${one.states[state]} ${state}`).join(", ");
  const open = one.state === "open" || one.state === "expired";
  const facts = [
    ["State", h(Fragment, null, h(Badge, { state: isTakenBack(one) ? "taken back" : one.state }), one.because ? ` ${one.because}` : "")],
    ["Reason", one.reason],
    ["By", one.by],
    ["Asked for", one.asked.length ? h(Lines, { lines: one.asked.map(epochs) }) : ""],
    ["Members", `${count(one.epochs, "epoch")} of ${count(jobs, "job")}${states ? `: ${states}` : ""}`],
    ["Held by", one.held.length ? h(Lines, { lines: one.held.map((held) => `${epochs(held)}, read ${held.tables.join(", ")}`) }) : one.is_held && "epochs of jobs that you may not see"],
    ["Deadline", open && one.deadline ? `${moment(one.deadline)} UTC` : ""],
    ["Closing", open && one.closing_until ? `no new readers until ${moment(one.closing_until)} UTC` : ""],
    ["Approval", approval(one)],
    ["Published", one.published && `${clock(one.published)} UTC, CSN ${one.csn}`],
    ["Former rows", one.published && !isTakenBack(one) && `held until ${moment(one.held_until)} UTC: until then it can be reverted`],
    ["Takes back", one.reverts && other(one.reverts)],
    ["Taken back by", one.reverted_by && h(Fragment, null, other(one.reverted_by.name), ` (${one.reverted_by.state})`)],
    ["Staged output", one.output && h("code", null, one.output)],
    ["Next step", one.next_step.length ? h(Lines, { lines: one.next_step }) : ""],
  ];
  return h(Facts, { facts });
}

/* Numbers of rows, asked for by the button only: the server reads rows for them. */
function Differences({ one, query, counts, setCounts }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const missing = one.epochs - one.states.staged - one.states.outdated;
  const look = async () => {
    setBusy(true);
    const answer = await ask("restatement/differences", { ...query, name: one.name });
    setBusy(false);
    setError(answer.error ?? null);
    setCounts(answer.body ?? null);
  };
  const old = counts && counts.output !== one.output;
  return h("section", { "aria-label": "Rows added and removed" },
    h("h2", null, "Rows added and removed"),
    h("div", { className: "ep-acts" },
      h("button", { type: "button", className: "ep-button", disabled: busy || !one.output, onClick: look }, busy ? "Counting …" : "Count rows"),
      h("p", { className: "ep-hint" }, one.output
        ? "Compares what is staged with what readers get now. It reads the rows of these epochs."
        : `Members are missing: ${missing} of ${count(one.epochs, "epoch")} are not staged. Rows can be counted once all are.`)),
    error ? h(Problem, { error }) : null,
    old ? h("p", { className: "ep-hint", role: "status" }, "Members were computed again since these rows were counted. Count them again.") : null,
    counts && !old ? h(Counted, { counts }) : null);
}

function Counted({ counts }) {
  const hidden = counts.jobs_hidden ? h("p", { className: "ep-hint" }, `Tables of ${count(counts.jobs_hidden, "job")} that you may not see are left out.`) : null;
  const numbers = (table) => (table.added === null
    ? h("td", { colSpan: 2 }, `not counted here, since it has ${table.rows} rows: `, h("code", null, table.command))
    : h(Fragment, null, h("td", { className: "ep-number" }, table.added), h("td", { className: "ep-number" }, table.removed)));
  return h("div", { role: "status" },
    h("div", { className: "ep-table ep-narrow" }, h("table", { "aria-label": "Rows added and removed by table" },
      h(Head, { columns: [["Table"], ["Rows added", "ep-number"], ["Rows removed", "ep-number"]] }),
      h("tbody", null, counts.tables.map((table) => h("tr", { key: table.table }, h("th", { scope: "row" }, table.table), numbers(table)))))),
    hidden);
}

function Jobs({ one }) {
  const states = Object.keys(one.states).length ? STATES : [];
  const columns = [["Job"], ["Epochs", "ep-number"], ...states.map((state) => [state, "ep-number"])];
  return h("div", { className: "ep-table ep-narrow" }, h("table", { "aria-label": "Members by job" },
    h(Head, { columns }),
    h("tbody", null, one.members.map((job) => h("tr", { key: job.job },
      h("th", { scope: "row" }, job.job), h("td", { className: "ep-number" }, job.epochs),
      states.map((state) => h("td", { key: state, className: "ep-number" }, job[state] || "–")))))));
}

function Members({ one, filter, setFilter }) {
  const states = [{ value: "", label: "all" }, { value: "unstaged", label: "not staged" }, ...STATES];
  const change = (name) => (value) => setFilter({ ...filter, offset: 0, [name]: value });
  const open = Object.keys(one.states).length > 0;
  const columns = [["From (UTC)"], ["To (UTC)"], ["Job"], ...(open ? [["State"]] : []), ["Run"], ...(open ? [["Because"]] : [])];
  return h("section", { "aria-label": "Members" },
    h("h2", null, "Members"),
    h(Jobs, { one }),
    one.jobs_hidden ? h("p", { className: "ep-hint" }, `${count(one.jobs_hidden, "further job")} of DAGs that you may not read ${one.jobs_hidden === 1 ? "is" : "are"} left out.`) : null,
    h("div", { className: "ep-bar" },
      open ? h(Choice, { label: "State", value: filter.state, options: states, onChange: change("state") }) : null,
      h(Choice, { label: "Job", value: filter.job, options: [{ value: "", label: "all" }, ...one.members.map((job) => job.job)], onChange: change("job") })),
    one.total ? h("div", { className: "ep-table" }, h("table", { "aria-label": "Members by epoch" },
      h(Head, { columns }),
      h("tbody", null, one.listed.map((member) => h("tr", { key: `${member.job} ${member.start}` },
        h("td", { className: "ep-once" }, moment(member.start)), h("td", { className: "ep-once" }, moment(member.end)), h("td", null, member.job),
        open ? h("td", null, h(Badge, { state: member.state })) : null,
        h("td", null, member.owner ? runLink(member.owner) : ""), open ? h("td", null, member.why) : null)))))
      : h("p", { className: "ep-hint", role: "status" }, "No member is in this state."),
    h(Pages, { answer: one, set: (offset) => setFilter({ ...filter, offset }), noun: "epoch" }));
}

export function Restatement({ name, query, refresh, go }) {
  const [filter, setFilter] = useState({ state: "", job: "", offset: 0 });
  const [turn, setTurn] = useState(0);
  const [counts, setCounts] = useState(null);
  const [kept, setKept] = useState(null);
  const asks = query && { ...query, name, state: filter.state, job: filter.job, offset: String(filter.offset) };
  const [answer, error] = useAnswer("restatement", asks, refresh, turn);
  useEffect(() => {
    if (answer) setKept(answer);
  }, [answer]);
  // While another page of members is asked for, the last one stays.
  const one = answer ?? (error ? null : kept);
  return h("div", { className: "ep-view" },
    h("div", { className: "ep-title" }, h("h2", null, `Restatement ${name}`),
      h(ViewLink, { place: { view: "restatements", name: "" }, go }, "All restatements")),
    error ? h(Problem, { error }) : null,
    !one && !error ? h("div", { className: "ep-note", role: "status" }, "Asking the metadata store …") : null,
    one ? h(Fragment, null,
      h("section", { className: "ep-note", "aria-label": "Restatement" }, h(What, { one, go })),
      h(Decisions, { one, query, counts, decided: () => setTurn((last) => last + 1), go }),
      one.state === "open" ? h(Differences, { one, query, counts, setCounts }) : null,
      h(Members, { one, filter, setFilter })) : null);
}
