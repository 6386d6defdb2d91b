"""Iceberg tables without a server and without a jar: Spark writes Parquet, pyiceberg keeps the metadata."""
