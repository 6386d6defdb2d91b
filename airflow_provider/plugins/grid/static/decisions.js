/* Decisions on a restatement: each asks once more, and says what will happen. */

import { Problem } from "./parts.js";
import { decide } from "./server.js";
import { count } from "./words.js";

const { createElement: h, useEffect, useId, useRef, useState } = globalThis.React;

/* Why a decision cannot be taken now; nothing where it can. */
const HINDERED = {
  approve: (one) => (one.output ? "" : "members are missing"),
  publish: (one) => {
    if (!one.output) return "members are missing";
    if (one.is_held) return "epochs hold it; somebody decides about them by one of the commands above";
    if (one.states.staged < one.epochs) return "members are outdated";
    return one.needs_approval && !one.approved ? "it is not approved" : "";
  },
};

/* The decisions that a restatement's state leaves. */
function offered(one) {
  if (one.state === "open") return [...(one.needs_approval && !one.approved ? ["approve"] : []), "publish", "abandon"];
  if (one.state === "expired") return ["abandon"];
  return one.state === "published" && one.reverted_by?.state !== "published" ? ["revert"] : [];
}

const KINDS = {
  approve: {
    label: "Approve", busy: "Approving …", primary: true,
    says: (one) => [
      `You approve what the ${count(one.epochs, "epoch")} have staged, the output ${one.output.slice(0, 12)}… and no other.`,
      "From then on it can be published. A member that is computed again ends the approval.",
    ],
    done: () => "Approved. It can be published now.",
  },
  publish: {
    label: "Publish", busy: "Publishing …", primary: true,
    says: (one) => [
      `All ${count(one.epochs, "epoch")} become visible in one commit: from then on readers get their new rows.`,
      "DAGs that follow its tables are told by asset events.",
      "It can be reverted for seven days, unless other epochs have read the new rows.",
    ],
    done: (body) => `Published at CSN ${body.csn}: readers get the new rows; ${count(body.events, "asset event")} sent.`,
  },
  abandon: {
    label: "Abandon", busy: "Abandoning …", danger: true, reason: true,
    says: (one) => [
      `It ends without a commit, and what its ${count(one.epochs, "epoch")} have staged is deleted. This cannot be undone.`,
      "Readers keep the rows that they get now.",
    ],
    done: () => "Abandoned: what was staged is deleted.",
  },
  revert: {
    label: "Revert", busy: "Reverting …", danger: true, reason: true,
    says: (one) => [
      `Its ${count(one.epochs, "epoch")} get their former rows back by one commit, as restatement ${one.name}-reverted.`,
      "Airflow's API server copies the rows, which may take minutes; the code of the jobs stays as it is.",
    ],
    done: (body) => `Taken back at CSN ${body.csn}: readers get the former rows; ${count(body.events, "asset event")} sent.`,
  },
};

/* What the rows differ in, if they were counted for what is staged now. */
function looked(one, counts) {
  if (!counts || counts.output !== one.output) return "You have not counted its rows on this page.";
  const told = counts.tables.filter((table) => table.added !== null).map((table) => `${table.table} +${table.added} −${table.removed}`);
  return `Rows: ${told.join(", ") || "not counted"}.`;
}

function Confirm({ kind, one, query, counts, close, decided }) {
  const { label, busy, danger, reason: asksReason, says, done } = KINDS[kind];
  const [sending, setSending] = useState(false);
  const [reason, setReason] = useState("");
  const [error, setError] = useState(null);
  const dialog = useRef(null);
  const id = useId();
  // What is approved is what was shown when the dialog opened.
  const [asked] = useState(one);
  useEffect(() => {
    dialog.current.showModal();
  }, []);
  // The browser gives the focus back to where it was, when a dialog closes.
  const shut = () => dialog.current?.close();
  const send = async (event) => {
    event.preventDefault();
    setSending(true);
    setError(null);
    const decision = { domain: query.domain, conn_id: query.conn_id || null, name: asked.name, output: asked.output, reason };
    const answer = await decide(`restatement/${kind}`, decision, `${label}: refused`);
    setSending(false);
    decided(answer.error ? null : done(answer.body));
    if (answer.error) setError(answer.error);
    else shut();
  };
  return h("dialog", {
    className: "ep-dialog", ref: dialog, "aria-labelledby": id, onClose: close,
    onCancel: (event) => sending && event.preventDefault(),
  },
    h("form", { onSubmit: send },
      h("h2", { id }, `${label} ${asked.name}?`),
      says(asked).map((words) => h("p", { key: words }, words)),
      kind === "approve" || kind === "publish" ? h("p", { className: "ep-hint" }, looked(asked, counts)) : null,
      asksReason ? h("label", null, "Reason (required; kept with it)",
        h("textarea", { value: reason, required: true, maxLength: 2000, autoFocus: true, disabled: sending, onChange: (event) => setReason(event.target.value) })) : null,
      error ? h(Problem, { error }) : null,
      h("div", { className: "ep-acts" },
        h("button", { type: "button", className: "ep-button", disabled: sending, onClick: shut }, "Cancel"),
        h("button", { type: "submit", className: `ep-button ep-primary${danger ? " ep-danger" : ""}`, disabled: sending || (asksReason && !reason.trim()) },
          sending ? busy : label))));
}

export function Decisions({ one, query, counts, decided }) {
  const [asking, setAsking] = useState(null);
  const [told, setTold] = useState("");
  const kinds = offered(one);
  const hindered = kinds.map((kind) => [kind, HINDERED[kind]?.(one)]).filter(([, why]) => why);
  const after = (words) => {
    if (words) setTold(words);
    decided();
  };
  const close = () => setAsking(null);
  const needs = one.needs.length ? `: ${one.needs.join(", ")}` : "";
  return h("section", { "aria-label": "Decisions" },
    kinds.length ? h("div", { className: "ep-acts" }, kinds.map((kind) => h("button", {
      key: kind, type: "button", disabled: !one.may_decide || Boolean(HINDERED[kind]?.(one)), onClick: () => (setTold(""), setAsking(kind)),
      className: `ep-button${KINDS[kind].primary ? " ep-primary" : ""}${KINDS[kind].danger ? " ep-danger" : ""}`,
    }, `${KINDS[kind].label} …`)),
      one.may_decide ? hindered.map(([kind, why]) => h("p", { key: kind, className: "ep-hint" }, `${KINDS[kind].label} waits: ${why}.`)) : null) : null,
    kinds.length && !one.may_decide ? h("p", { className: "ep-hint" },
      `You may look, not decide: that needs the permission to change runs of all DAGs that worked on its jobs${needs}.`) : null,
    h("div", { role: "status" }, told ? h("div", { className: "ep-note ep-done" }, told) : null),
    asking ? h(Confirm, { key: asking, kind: asking, one, query, counts, close, decided: after }) : null);
}
