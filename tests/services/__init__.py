"""Real servers for tests: each started by a fixture, private to the run, and stopped with it."""

from __future__ import annotations
