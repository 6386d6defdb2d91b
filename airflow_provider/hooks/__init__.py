"""Airflow connections to a metadata store, and what a task run says about itself."""
