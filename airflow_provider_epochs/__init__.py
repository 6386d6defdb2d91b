"""The example DAGs of the package ``airflow_provider``, where Airflow looks for them.

Airflow derives this module's name from the distribution's (docs/decisions/example-dags.md); jobs and DAGs import
``airflow_provider``.
"""
