/* Parts that every view of the page uses. */

const { createElement: h } = globalThis.React;

export function Choice({ label, value, options, onChange }) {
  return h("label", null, label,
    h("select", { value, onChange: (event) => onChange(event.target.value) },
      options.map((one) => h("option", { key: one.value ?? one, value: one.value ?? one }, one.label ?? one))));
}

export function Text({ label, onChange, ...rest }) {
  return h("label", null, label, h("input", { ...rest, onChange: (event) => onChange(event.target.value) }));
}

export function Problem({ error }) {
  return h("div", { className: "ep-note ep-error", role: "alert" },
    h("h2", null, error.title),
    h("p", null, error.message),
    error.nextStep ? h("p", null, h("b", null, "What to do: "), error.nextStep) : null);
}

/* Facts with a value, as a list of terms. */
export function Facts({ facts }) {
  return h("dl", null, facts.filter(([, value]) => value).flatMap(([name, value]) =>
    [h("dt", { key: name }, name), h("dd", { key: `${name}.` }, value)]));
}

/* A program outside Airflow names itself where a DAG's id stands, by what no DAG can be called. */
export function runLink(owner) {
  if (!/^[\p{L}\p{N}_.-]+$/u.test(owner.dag_id)) return `${owner.dag_id} / ${owner.run_id}`;
  const path = `dags/${encodeURIComponent(owner.dag_id)}/runs/${encodeURIComponent(owner.run_id)}`;
  return h("a", { href: new URL(path, document.baseURI).href }, `${owner.dag_id} / ${owner.run_id}`);
}

/* The address of a view: of the list of restatements, of one by its name, of the topology, else of the grid. */
export function addressOf({ view, name, words }) {
  const url = new URL(globalThis.location.href);
  view ? url.searchParams.set("view", view) : url.searchParams.delete("view");
  name ? url.searchParams.set("restatement", name) : url.searchParams.delete("restatement");
  if (words !== undefined) url.searchParams.set("job", words);
  return url;
}

/* A link to a view. A plain click changes the view in place; other clicks do what the browser does with links. */
export function ViewLink({ place, go, children, ...rest }) {
  const onClick = (event) => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(place);
  };
  return h("a", { href: addressOf(place).href, onClick, ...rest }, children);
}
