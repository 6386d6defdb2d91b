/* What a decision has computed again: asked for by its dialog, before it is taken. */

import { Problem } from "./parts.js";
import { ask } from "./server.js";
import { count, span } from "./words.js";

const { createElement: h, useEffect, useState } = globalThis.React;

/* The plan and the error that a dialog gets, once. */
export function usePlan(path, query) {
  const [found, setFound] = useState({ plan: null, error: null });
  useEffect(() => {
    const given = new AbortController();
    ask(path, query, given.signal).then((answer) => {
      if (!given.signal.aborted) setFound({ plan: answer.body ?? null, error: answer.error ?? null });
    });
    return () => given.abort();
  }, []);
  return found;
}

/* Whether a decision on the plan can be sent. */
export function isHindered(plan) {
  return !plan || !plan.may_decide || plan.obstacles.length > 0;
}

/* :param lead: gets the plan and returns what is said above its epochs. */
export function Plan({ plan, error, label, waiting, lead }) {
  if (error) return h(Problem, { error });
  if (!plan) return h("p", { role: "status", className: "ep-hint" }, waiting);
  const hidden = plan.jobs_hidden ? [`${count(plan.jobs_hidden, "job")} of DAGs that you may not read`] : [];
  const lines = [...plan.members.map((one) => `${one.job}: ${count(one.epochs, "epoch")}, ${span(one)}`), ...hidden];
  const needs = plan.needs.length ? `: ${plan.needs.join(", ")}` : "";
  return h("div", { className: "ep-plan", role: "group", "aria-label": label },
    h("p", null, lead(plan)),
    lines.length ? h("ul", null, lines.map((words) => h("li", { key: words }, words))) : null,
    plan.expected_s ? h("p", { className: "ep-hint" }, `They took ${count(plan.expected_s, "second")} when they were computed last.`) : null,
    plan.is_held ? h("p", null, "Epochs hold it: decide about each before it is published.") : null,
    plan.obstacles.length ? h("div", { className: "ep-note ep-error", role: "alert" }, h("b", null, "In the way: "), h("ul", null, plan.obstacles.map((words) => h("li", { key: words }, words)))) : null,
    plan.may_decide ? null : h("p", { className: "ep-hint" }, `It is for users who may change runs of all DAGs that worked on these jobs${needs}.`));
}
