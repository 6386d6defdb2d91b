"""The commands ``airflow epochs …``."""
