"""Airflow connections to a metadata store, and the owner, interval and outcome of a task run."""
