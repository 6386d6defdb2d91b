"""Sensors: what a DAG's author uses to wait for a consistent cut."""
