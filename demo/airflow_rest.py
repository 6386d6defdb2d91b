"""Airflow's REST API, as far as a demo or a system test drives Airflow with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import date
from typing import Any

import httpx

REQUEST_TIMEOUT_S = 90.0
"""Longer than Airflow on SQLite waits for a lock (60 s): it answers that, and then the request is repeated."""
LOCKED_WAITS_S = (0.3, 0.7, 1.1, 1.9, 3.1, 5.0)
QUESTIONS = 3
"""How often a question is asked when no answer comes: a busy machine's API server may be slow."""
PAGE = 100
"""Items that Airflow gives at once by default, at most."""


class AirflowRestError(RuntimeError):
    """Airflow refused a request.

    :param response: what it answered; ``reason`` is what it names as such, if it does.
    """

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        reason = response.json().get("detail") if "json" in response.headers.get("content-type", "") else None
        self.reason = reason.get("reason") if isinstance(reason, dict) else None
        request = response.request
        super().__init__(f"{request.method} {request.url} gave {response.status_code}: {response.text[:500]}")


class AirflowRest:
    """A client of one Airflow API server.

    :param base_url: for example ``http://127.0.0.1:8080``.
    :param login: user and password; None where the simple auth manager makes each user an admin.
    """

    def __init__(self, base_url: str, *, login: tuple[str, str] | None = None) -> None:
        self.base_url = base_url
        self._login = login
        self._client = httpx.Client(base_url=base_url, timeout=REQUEST_TIMEOUT_S)
        self._token: str | None = None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def healthy(self) -> bool:
        """Whether the API server answers and says that all four components are healthy."""
        try:
            response = self._client.get("/api/v2/monitor/health", timeout=2.0)
        except httpx.HTTPError:
            return False
        if response.status_code != httpx.codes.OK:
            return False
        return all((part or {}).get("status") == "healthy" for part in response.json().values())

    def request(self, method: str, path: str, **kwargs: Any) -> Any:
        """Send one request with a token; again while Airflow cannot note it, as on SQLite, which its scheduler locks.

        Airflow notes a change in its audit log before it makes it: an answer of "Database error" has changed nothing.

        :param path: below ``/api/v2``.
        :returns: the decoded answer, or None when it has no body.
        :raises AirflowRestError: for an answer of 400 and above.
        """
        for wait_s in LOCKED_WAITS_S:
            try:
                return self._request(method, path, **kwargs)
            except AirflowRestError as error:
                if error.reason != "Database error":
                    raise
            time.sleep(wait_s)
        return self._request(method, path, **kwargs)

    def _request(self, method: str, path: str, **kwargs: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token()}"}
        return self._answer(self._send(method, f"/api/v2{path}", headers=headers, **kwargs))

    def token(self) -> str:
        """Give the token that requests are sent with; asked for once.

        :raises AirflowRestError: for an answer of 400 and above.
        """
        if self._token is None:
            self._token = str(self._answer(self._ask_token())["access_token"])
        return self._token

    def dag_ids(self) -> set[str]:
        """Name the DAGs that Airflow has parsed."""
        return {dag["dag_id"] for dag in self._all("/dags", "dags")}

    def import_errors(self) -> list[str]:
        """Give the stack traces of DAG files that could not be imported."""
        errors = self._all("/importErrors", "import_errors")
        return [f"{error['filename']}\n{error['stack_trace']}" for error in errors]

    def wait_for_dags(self, dag_ids: set[str], *, timeout_s: float = 90.0) -> None:
        """Wait until DAGs are parsed.

        :raises RuntimeError: with Airflow's import errors, when they are not in time.
        """
        deadline = time.monotonic() + timeout_s
        while missing := dag_ids - self.dag_ids():
            errors = self.import_errors()
            if errors or time.monotonic() > deadline:
                raise RuntimeError(
                    f"Airflow has no DAG {sorted(missing)}: " + "\n".join(errors or ["no error"])
                )
            time.sleep(0.5)

    def unpause(self, dag_id: str) -> None:
        """Let the scheduler run a DAG."""
        self.request("PATCH", f"/dags/{dag_id}", json={"is_paused": False})

    def pause(self, dag_id: str) -> None:
        """Stop the scheduler from starting more of a DAG."""
        self.request("PATCH", f"/dags/{dag_id}", json={"is_paused": True})

    def trigger(self, dag_id: str, **body: Any) -> str:
        """Start one run by hand.

        :param body: fields of the run, for example ``logical_date`` and ``conf``.
        :returns: its run id.
        """
        body.setdefault("logical_date", None)
        run: dict[str, Any] = self.request("POST", f"/dags/{dag_id}/dagRuns", json=body)
        return str(run["dag_run_id"])

    def backfill(self, dag_id: str, *, first: date, last: date, max_active_runs: int, **body: Any) -> int:
        """Do what ``airflow backfill create`` does: make the runs of whole days.

        On SQLite Airflow gives up when its scheduler holds the database's lock; then it is asked again. It answers 503,
        or "Database error" where the lock kept it from noting the request in its audit log. What it has noted of the
        backfill by then would be in the way for two minutes, so that it is cancelled.

        :param first: date of the first run.
        :param last: date of the last run, included.
        :returns: the backfill's id.
        """
        body = {
            "dag_id": dag_id,
            "from_date": f"{first.isoformat()}T00:00:00Z",
            "to_date": f"{last.isoformat()}T00:00:00Z",
            "max_active_runs": max_active_runs,
            "reprocess_behavior": "none",
            **body,
        }
        for wait_s in LOCKED_WAITS_S:
            try:
                return int(self._request("POST", "/backfills", json=body)["id"])
            except AirflowRestError as error:
                locked = error.response.status_code == httpx.codes.SERVICE_UNAVAILABLE
                if not locked and error.reason != "Database error":
                    raise
            self._cancel_backfills(dag_id)
            time.sleep(wait_s)
        return int(self._request("POST", "/backfills", json=body)["id"])

    def backfills(self, dag_id: str) -> list[dict[str, Any]]:
        """List the backfills of one DAG."""
        return self._all("/backfills", "backfills", dag_id=dag_id)

    def _cancel_backfills(self, dag_id: str) -> None:
        for backfill in self.backfills(dag_id):
            if backfill["completed_at"] is not None:
                continue
            try:
                self.request("PUT", f"/backfills/{backfill['id']}/cancel")
            except AirflowRestError as error:
                # Airflow has rolled it back since it was listed.
                if error.response.status_code != httpx.codes.NOT_FOUND:
                    raise

    def dag_runs(self, dag_id: str = "~") -> list[dict[str, Any]]:
        """List the runs of one DAG, or of all."""
        return self._all(f"/dags/{dag_id}/dagRuns", "dag_runs")

    def task_instances(self, dag_id: str = "~", run_id: str = "~", **filters: Any) -> list[dict[str, Any]]:
        """List the newest tries of tasks, of one DAG and run or of all.

        :param filters: of the API, for example ``state="deferred"``.
        """
        return self._all(f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances", "task_instances", **filters)

    def clear(self, dag_id: str, run_id: str, task_ids: list[str] | None = None) -> None:
        """Clear tasks of a run, so that they run again."""
        body = {"dry_run": False, "dag_run_id": run_id, "only_failed": False, "task_ids": task_ids}
        self.request("POST", f"/dags/{dag_id}/clearTaskInstances", json=body)

    def wait_for_run(
        self, dag_id: str, run_id: str, *, timeout_s: float = 300.0, check: Callable[[], None] = lambda: None
    ) -> str:
        """Wait for a run's end.

        :param check: called while it waits; raises if Airflow has ended.
        :returns: its state, ``success`` or ``failed``.
        :raises TimeoutError: when it goes on longer.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            state = str(self.request("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["state"])
            if state in ("success", "failed"):
                return state
            if time.monotonic() > deadline:
                raise TimeoutError(f"run {run_id} of {dag_id} is still {state} after {timeout_s:.0f} s")
            check()
            time.sleep(0.5)

    def _ask_token(self) -> httpx.Response:
        if self._login is None:
            return self._send("GET", "/auth/token")
        user, password = self._login
        return self._send("POST", "/auth/token", json={"username": user, "password": password})

    def _send(self, method: str, path: str, **kwargs: Any) -> httpx.Response:
        """Send one request; a question, which changes nothing, is asked again when no answer comes."""
        for _ in range(QUESTIONS - 1 if method == "GET" else 0):
            try:
                return self._client.request(method, path, **kwargs)
            except httpx.TransportError:
                time.sleep(1.0)
        return self._client.request(method, path, **kwargs)

    def _all(self, path: str, name: str, **filters: Any) -> list[dict[str, Any]]:
        """Fetch all pages of a list."""
        found: list[dict[str, Any]] = []
        while True:
            answer = self.request("GET", path, params={**filters, "limit": PAGE, "offset": len(found)})
            found.extend(answer[name])
            if not answer[name] or len(found) >= answer["total_entries"]:
                return found

    def _answer(self, response: httpx.Response) -> Any:
        if response.status_code >= httpx.codes.BAD_REQUEST:
            raise AirflowRestError(response)
        return response.json() if response.content else None
