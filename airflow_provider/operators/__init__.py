"""Operators and task decorators that compute epochs."""
