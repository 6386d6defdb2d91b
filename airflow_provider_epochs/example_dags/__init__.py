"""DAGs that Airflow shows when ``[core] load_examples`` is on."""
