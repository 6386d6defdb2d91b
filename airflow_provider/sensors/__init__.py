"""Sensors that wait for a consistent cut."""
