"""Servers for the tests of whole processes."""

from __future__ import annotations

from tests.services.postgresql import postgresql

__all__ = ["postgresql"]  # a fixture of this folder
