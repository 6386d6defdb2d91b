/* The dialog that every decision asks by: what will happen, a reason where one is kept, and what the server says to it. */

import { Problem, ViewLink } from "./parts.js";

const { createElement: h, Fragment, useEffect, useId, useRef, useState } = globalThis.React;

/* :param send: sends the decision with the reason; returns the answer or its error. :param decided: gets the words about what was done. */
export function Confirm({ title, label, busy, danger, reason: asksReason, lines, hint, hindered, children, send, done, close, decided }) {
  const [sending, setSending] = useState(false);
  const [reason, setReason] = useState("");
  const [error, setError] = useState(null);
  const dialog = useRef(null);
  const id = useId();
  useEffect(() => {
    dialog.current.showModal();
  }, []);
  // The browser gives the focus back to where it was, when a dialog closes.
  const shut = () => dialog.current?.close();
  const submit = async (event) => {
    event.preventDefault();
    setSending(true);
    setError(null);
    const answer = await send(reason);
    setSending(false);
    decided(answer.error ? null : done(answer.body));
    if (answer.error) setError(answer.error);
    else shut();
  };
  return h("dialog", {
    className: "ep-dialog", ref: dialog, "aria-labelledby": id, onClose: close,
    onCancel: (event) => sending && event.preventDefault(),
  },
    h("form", { onSubmit: submit },
      h("h2", { id }, title),
      lines.map((words) => h("p", { key: words }, words)),
      hint ? h("p", { className: "ep-hint" }, hint) : null,
      children,
      asksReason ? h("label", null, `Reason (required; ${typeof asksReason === "string" ? asksReason : "kept with it"})`,
        h("textarea", { value: reason, required: true, maxLength: 2000, autoFocus: true, disabled: sending, onChange: (event) => setReason(event.target.value) })) : null,
      error ? h(Problem, { error }) : null,
      h("div", { className: "ep-acts" },
        h("button", { type: "button", className: "ep-button", disabled: sending, onClick: shut }, "Cancel"),
        h("button", { type: "submit", className: `ep-button ep-primary${danger ? " ep-danger" : ""}`, disabled: sending || hindered || Boolean(asksReason && !reason.trim()) },
          sending ? busy : label))));
}

/* A button that opens the dialog. */
export function Ask({ kind, disabled, ask, hint }) {
  return h("button", {
    type: "button", disabled, title: hint, onClick: ask,
    className: `ep-button${kind.primary ? " ep-primary" : ""}${kind.danger ? " ep-danger" : ""}`,
  }, `${kind.label} …`);
}

/* What was done, for the eye and for screen readers. :param told: words, or words and the restatement that was opened. */
export function Done({ told, go }) {
  const link = told?.opened ? h(Fragment, null, " ", h(ViewLink, { place: { view: "restatements", name: told.opened }, go }, "Show it")) : null;
  return h("div", { role: "status" }, told ? h("div", { className: "ep-note ep-done" }, told.words ?? told, link) : null);
}
