"""Test support for authors of stores, formats and pipelines: contract suites, faults, a manual clock."""
