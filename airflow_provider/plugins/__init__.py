"""The page of tables and epochs in Airflow's UI."""
