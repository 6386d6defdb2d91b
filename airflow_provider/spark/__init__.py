"""The job's side: what a Spark program does with its epoch. Never imports Airflow."""
