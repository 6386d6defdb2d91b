"""Records are first decoded by several threads of a new process, as the triggerer's triggers do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROCESSES = 6
PROGRAM = """
import sys
from threading import Barrier, Thread

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key
from airflow_provider.stores.codec import RECORDS, decode

THREADS = 8
sys.setswitchinterval(1e-6)
together, refused = Barrier(THREADS), []

def decode_each_kind():
    together.wait()
    for kind in RECORDS:
        key = Key(DomainName("d"), kind, "partition", "item")
        try:
            decode(key, b'{"format":1,"record":{"none":1}}')
        except Exception as error:
            refused.append(type(error).__name__)

threads = [Thread(target=decode_each_kind) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*sorted(set(refused)), len(refused) == THREADS * len(RECORDS))
"""


def test_threads_that_decode_first_do_not_meet_a_half_made_decoder() -> None:
    """It ended each second process or so, hence several."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(PROCESSES)
    ]
    ended = [(process.communicate(), process.returncode) for process in running]
    assert ended == [(("PackageTooOld StoreIncompatible True\n", ""), 0)] * PROCESSES
