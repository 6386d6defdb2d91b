"""Catalog for engines, behind Airflow's login."""
