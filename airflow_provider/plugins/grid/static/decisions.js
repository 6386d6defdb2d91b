/* Decisions on a restatement: each asks once more, and says what will happen. */

import { Ask, Confirm, Done } from "./confirm.js";
import { isHindered, Plan, usePlan } from "./plan.js";
import { decide } from "./server.js";
import { count } from "./words.js";

const { createElement: h, useState } = globalThis.React;

/* Why a decision cannot be taken now; nothing where it can. */
const HINDERED = {
  approve: (one) => (one.output ? "" : "members are missing"),
  publish: (one) => {
    if (!one.output) return "members are missing";
    if (one.is_held) return "epochs hold it; decide about them by one of the commands above";
    if (one.states.staged < one.epochs) return "members are outdated";
    return one.needs_approval && !one.approved ? "it is not approved" : "";
  },
};

/* The decisions that a restatement's state leaves. An approval that is not needed can be given once all is staged. */
function offered(one) {
  const approvable = !one.approved && (one.needs_approval || one.output);
  if (one.state === "open") return [...(approvable ? ["approve"] : []), "publish", "abandon"];
  if (one.state === "expired") return ["abandon"];
  return one.state === "published" && one.reverted_by?.state !== "published" ? ["revert"] : [];
}

const KINDS = {
  approve: {
    label: "Approve", busy: "Approving …", primary: true,
    says: (one) => [
      `You approve what the ${count(one.epochs, "epoch")} have staged, the output ${one.output.slice(0, 12)}… and no other.`,
      one.needs_approval ? "From then on it can be published. A member that is computed again ends the approval."
        : "It can be published without an approval, too. Yours is kept with it, until a member is computed again.",
    ],
    done: () => "Approved. It can be published now.",
  },
  publish: {
    label: "Publish", busy: "Publishing …", primary: true,
    says: (one) => [
      `All ${count(one.epochs, "epoch")} become visible in one commit: from then on readers get their new rows.`,
      "DAGs that follow its tables are told by asset events.",
      "It can be reverted for seven days; epochs that have read the new rows by then are computed again for that.",
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
    done: (body) => (body.opened
      ? { words: `Opened: ${body.opened} has the former rows. It is published once runs have computed the ${count(body.epochs, "epoch")} that read the new ones.`, opened: body.opened }
      : `Taken back at CSN ${body.csn}: readers get the former rows; ${count(body.events, "asset event")} sent.`),
  },
};

function readers(plan) {
  if (!plan.readers) return "No other epoch has read its rows.";
  return `${count(plan.readers, "epoch")} of ${count(plan.jobs, "job")} read its rows since. Runs compute them again within the revert; until then readers get the present rows.`;
}

function Revert({ one, query, close, decided }) {
  const { plan, error } = usePlan("restatement/revert/plan", { ...query, name: one.name });
  const { says, ...kind } = KINDS.revert;
  const send = (reason) => decide("restatement/revert", { ...asJson(query), name: one.name, reason, with_readers: plan.readers > 0 || plan.is_held }, "Revert: refused");
  return h(Confirm, { ...kind, title: `Revert ${one.name}?`, lines: says(one), hindered: isHindered(plan), send, close, decided },
    h(Plan, { plan, error, label: "Later readers", waiting: "Looking for epochs that have read its rows …", lead: readers }));
}

/* What the rows differ in, if they were counted for what is staged now. */
function looked(one, counts) {
  if (!counts || counts.output !== one.output) return "You have not counted its rows on this page.";
  const told = counts.tables.filter((table) => table.added !== null).map((table) => `${table.table} +${table.added} −${table.removed}`);
  return `Rows: ${told.join(", ") || "not counted"}.`;
}

/* The dialog of a decision. What is approved is what was shown when the dialog opened. */
function dialogOf({ kind, one }, query, counts) {
  const { label, says } = KINDS[kind];
  return {
    ...KINDS[kind], title: `${label} ${one.name}?`, lines: says(one),
    hint: kind === "approve" || kind === "publish" ? looked(one, counts) : "",
    send: (reason) => decide(`restatement/${kind}`, { ...asJson(query), name: one.name, output: one.output, reason }, `${label}: refused`),
  };
}

export function asJson(query) {
  return { domain: query.domain, conn_id: query.conn_id || null };
}

export function Decisions({ one, query, counts, decided, go }) {
  const [asking, setAsking] = useState(null);
  const [told, setTold] = useState(null);
  const kinds = offered(one);
  const hindered = kinds.map((kind) => [kind, HINDERED[kind]?.(one)]).filter(([, why]) => why);
  const after = (done) => {
    if (done) setTold(done);
    decided();
  };
  const close = () => setAsking(null);
  const needs = one.needs.length ? `: ${one.needs.join(", ")}` : "";
  return h("section", { "aria-label": "Decisions" },
    kinds.length ? h("div", { className: "ep-acts" }, kinds.map((kind) => h(Ask, {
      key: kind, kind: kind === "approve" ? { ...KINDS.approve, primary: one.needs_approval } : KINDS[kind], disabled: !one.may_decide || Boolean(HINDERED[kind]?.(one)), ask: () => (setTold(null), setAsking({ kind, one })),
    })),
      one.may_decide ? hindered.map(([kind, why]) => h("p", { key: kind, className: "ep-hint" }, `${KINDS[kind].label} waits: ${why}.`)) : null) : null,
    kinds.length && !one.may_decide ? h("p", { className: "ep-hint" },
      `You may look, not decide: that needs the permission to change runs of all DAGs that worked on its jobs${needs}.`) : null,
    h(Done, { told, go }),
    asking?.kind === "revert" ? h(Revert, { key: asking.kind, one: asking.one, query, close, decided: after }) : null,
    asking && asking.kind !== "revert" ? h(Confirm, { key: asking.kind, ...dialogOf(asking, query, counts), close, decided: after }) : null);
}
