"""The named schedules without this package: Spark over Parquet, and over Iceberg with its own runtime."""
