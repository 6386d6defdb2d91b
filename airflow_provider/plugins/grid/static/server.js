/* Questions to the page's own routes, and decisions that are sent to them. */

const { useEffect, useState } = globalThis.React;

const BASE = new URL("../", import.meta.url);
const REFRESH_MS = 5000;

const TITLES = {
  StoreUnavailable: "The metadata store does not answer",
  StoreIncompatible: "The metadata store cannot be used",
  UnknownName: "There is no such thing here",
  InvalidInput: "This cannot be shown",
  NotReady: "It is not ready",
};

/* An error as the page shows it: what is wrong, in whose words, and what to do. */
function refusal(answer, body, title) {
  if (answer.status === 401) return { title: "You are signed out", message: "Airflow asks who you are.", nextStep: "reload the page and sign in." };
  const detail = Array.isArray(body.detail) ? body.detail.map((one) => `${one.loc?.at(-1)}: ${one.msg}`).join("; ") : body.detail;
  return {
    title: title ?? TITLES[body.error] ?? "Airflow's API server refused the question",
    message: body.message ?? detail ?? `${answer.status} ${answer.statusText}`,
    nextStep: body.next_step ?? (answer.status >= 500 ? "look into the log of Airflow's API server, or ask who may." : ""),
  };
}

const NO_ANSWER = {
  title: "Airflow's API server does not answer", message: "What is shown is as old as it says.",
  nextStep: "wait, or look whether the server runs; the page asks again by itself.",
};

const NO_REPLY = {
  title: "Airflow's API server has not answered", message: "It may have been done, or not: the state on the page tells, once the server answers.",
  nextStep: "wait for the page to show the state; if it has not changed, decide again, which does nothing twice.",
};

export async function ask(path, query, signal) {
  const url = new URL(`api/${path}`, BASE);
  for (const [name, value] of Object.entries(query)) if (value) url.searchParams.set(name, value);
  const answer = await fetch(url, { credentials: "same-origin", headers: { Accept: "application/json" }, signal }).catch(() => null);
  if (!answer) return { error: NO_ANSWER };
  const body = await answer.json().catch(() => ({}));
  return answer.ok ? { body } : { error: refusal(answer, body) };
}

/* Send a decision as JSON, which a page of another site cannot do unasked. The title is that of a refusal. */
export async function decide(path, decision, title) {
  const answer = await fetch(new URL(`api/${path}`, BASE), {
    method: "POST", credentials: "same-origin", headers: { Accept: "application/json", "Content-Type": "application/json" },
    body: JSON.stringify(decision),
  }).catch(() => null);
  if (!answer) return { error: NO_REPLY };
  const body = await answer.json().catch(() => ({}));
  return answer.ok ? { body } : { error: refusal(answer, body, title) };
}

/* Ask again whenever the question changes and, when wanted, some seconds after the last answer came: one request is under
   way at a time, and one whose answer is no longer waited for is given up. The last answer to a question stays while it is
   asked again, also when that fails or brings nothing new; of another question nothing stays. Another turn asks at once. */
export function useAnswer(path, query, refresh, turn = 0) {
  const [known, setKnown] = useState({});
  const question = query === null ? null : JSON.stringify(query);
  useEffect(() => {
    if (question === null) return undefined;
    const given = new AbortController();
    let [timer, tag] = [null, ""];
    const once = async () => {
      if (!document.hidden || !tag) {
        const { body, error } = await ask(path, { ...JSON.parse(question), since: tag }, given.signal);
        if (given.signal.aborted) return;
        tag = body?.tag ?? tag;
        const news = body && !body.unchanged ? body : null;
        setKnown((last) => ({ question, body: news ?? (last.question === question ? last.body : null), error }));
      }
      if (refresh) timer = setTimeout(once, REFRESH_MS);
    };
    once();
    return () => {
      given.abort();
      clearTimeout(timer);
    };
  }, [path, question, refresh, turn]);
  return known.question === question ? [known.body ?? null, known.error ?? null] : [null, null];
}
