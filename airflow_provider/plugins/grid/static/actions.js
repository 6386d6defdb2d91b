/* Decisions about an epoch, its job and the leases on it. Each asks once more, and says what will happen. */

import { Ask, Confirm, Done } from "./confirm.js";
import { asJson } from "./decisions.js";
import { isHindered, Plan, usePlan } from "./plan.js";
import { decide } from "./server.js";
import { count, moment, span } from "./words.js";

const { createElement: h, Fragment, useState } = globalThis.React;

const KINDS = {
  skip: {
    label: "Skip", busy: "Skipping …", danger: true, reason: "kept with the commit", path: "epoch/skip",
    says: (one) => [
      `The epoch ${span(one)} of ${one.job} is committed without rows, and readers go on.`,
      "A full table has at its end what it had before. If the job computes the epoch after all, that is its next revision.",
      "No asset event is sent: a DAG that follows the tables by assets starts no run for the epoch.",
    ],
    done: (body) => [
      body.skipped ? "Skipped: readers go on." : "Nothing was skipped: it was committed before.",
      ...body.unread.map((words) => `No later epoch reads ${words}.`), ...body.late.map((words) => `No epoch reads the late ${words}.`), ...body.stalled,
    ].join(" "),
  },
  abort: {
    label: "Abort", busy: "Aborting …", danger: true, reason: "kept in the state log", path: "epoch/abort",
    says: (one) => [
      `The attempt with token ${one.token} at ${span(one)} of ${one.job} ends, and what it has written is deleted.`,
      "Its program is refused from then on. A retry of its task begins anew: mark the task failed where that is not wanted.",
    ],
    done: (body) => `Ended: the attempt of ${body.owner}.`,
  },
  retire: {
    label: "Retire job", busy: "Retiring …", danger: true, reason: "kept with the job", path: "job/retire",
    says: (one) => [
      `The job ${one.job} ends with all of its tables. They keep their states, and no reader waits for further epochs.`,
      `Another job may take the tables over. The command airflow epochs revive ${one.job} brings the job back.`,
    ],
    done: (body) => `Retired: ${body.retired}.`,
  },
  release: {
    label: "Release", busy: "Releasing …", danger: true, reason: "kept in Airflow's audit log", path: "lease/release",
    says: (one) => [
      `The lease ${one.lease.name} of ${one.lease.owner} ends now. Retention may expire what it holds, and its reader fails then.`,
    ],
    done: (body) => `Released: ${body.released}.`,
  },
  restate: {
    label: "Restate", busy: "Opening …", reason: "kept with it", path: "restatement/open", says: () => [], done: (body) => `Opened: ${body.opened}, ${count(body.epochs, "epoch")}.`,
  },
};

/* The decisions that the state of an epoch leaves. */
function offered(epoch) {
  const last = epoch.attempts.at(-1);
  const open = ["OPEN", "PRECOMMIT"].includes(epoch.state) || last?.ended === null;
  const over = ["COMMIT", "SKIPPED"].includes(epoch.state);
  if (epoch.retired) return epoch.state === "COMMIT" ? ["restate"] : [];
  // What is staged waits for its restatement, which decides about it.
  if (last?.staged) return [];
  if (open) return ["abort", "retire"];
  return [over ? "restate" : "skip", "retire"];
}

function lead(plan) {
  return `Computes ${count(plan.epochs, "epoch")} of ${count(plan.jobs, "job")} again, and publishes them by one commit. Until then readers get the present rows.`;
}

function Restate({ epoch, query, close, decided }) {
  const [approval, setApproval] = useState(false);
  const interval = `${epoch.start}/${epoch.end}`;
  const { plan, error } = usePlan("restatement/plan", { ...query, job: epoch.job, interval });
  const send = (reason) => decide("restatement/open", { ...asJson(query), job: epoch.job, interval, name: plan.name, reason, needs_approval: approval }, "Restate: refused");
  return h(Confirm, {
    ...KINDS.restate, title: `Restate ${epoch.job}?`, lines: [`The epoch ${span(epoch)}, and all that has read it, is computed again.`],
    hindered: isHindered(plan), send, close, decided, done: (body) => ({ words: KINDS.restate.done(body), opened: body.opened }),
  },
    h(Plan, { plan, error, label: "Plan", waiting: "Planning …", lead }),
    h("label", { className: "ep-check" }, h("input", { type: "checkbox", checked: approval, onChange: (event) => setApproval(event.target.checked) }), "publish only what was approved"));
}

/* The buttons below an epoch, and the leases on it with theirs. */
export function Actions({ epoch, query, decided, go }) {
  const [asking, setAsking] = useState(null);
  const [told, setTold] = useState(null);
  const token = epoch.attempts.at(-1)?.token;
  const kinds = offered(epoch);
  const after = (done) => {
    if (done) setTold(done);
    decided();
  };
  const begin = (kind, more) => () => (setTold(null), setAsking({ kind, one: { ...epoch, token, ...more } }));
  const close = () => setAsking(null);
  const dialog = ({ kind, one }) => {
    if (kind === "restate") return h(Restate, { epoch: one, query, close, decided: after });
    const { label, path, says } = KINDS[kind];
    const about = kind === "release" ? { name: one.lease.name } : kind === "retire" ? { job: one.job } : { job: one.job, start: one.start, end: one.end, token: one.token };
    const send = (reason) => decide(path, { ...asJson(query), ...about, reason }, `${label}: refused`);
    return h(Confirm, { ...KINDS[kind], title: `${label}: ${kind === "release" ? one.lease.name : one.job}?`, lines: says(one), send, close, decided: after });
  };
  const needs = epoch.needs.length ? `: ${epoch.needs.join(", ")}` : "";
  return h("section", { "aria-label": "Actions" },
    epoch.leases.length ? h(Fragment, null, h("h3", null, "Leases"), h("ul", { className: "ep-leases" }, epoch.leases.map((lease, index) => h("li", { key: index },
      h("span", null, lease.name ? `${lease.name} of ${lease.owner}` : "a reader of a DAG that you may not read",
        h("small", null, `holds the barrier ${moment(lease.barrier)} at CSN ${lease.csn} until ${moment(lease.until)} UTC`)),
      h(Ask, { kind: KINDS.release, disabled: !lease.may_release, ask: begin("release", { lease }) }))))) : null,
    kinds.length ? h("div", { className: "ep-acts" }, kinds.map((kind) => h(Ask, { key: kind, kind: KINDS[kind], disabled: !epoch.may_decide, ask: begin(kind) }))) : null,
    kinds.length && !epoch.may_decide ? h("p", { className: "ep-hint" }, `You may look, not decide: that needs the permission to change runs of all DAGs that worked on it${needs}.`) : null,
    h(Done, { told, go }),
    asking ? h(Fragment, { key: asking.kind }, dialog(asking)) : null);
}
