"""Operators and the task decorator: what a DAG's author uses to compute epochs."""
