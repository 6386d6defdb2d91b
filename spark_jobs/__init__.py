"""Spark programs that the example DAGs run, and the transforms that they are made of."""
