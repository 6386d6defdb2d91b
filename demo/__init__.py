"""The demo: a cascade of real Airflow DAGs and real Spark jobs over real data, read all the time."""
