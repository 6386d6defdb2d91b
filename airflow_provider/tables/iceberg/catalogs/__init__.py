"""Catalogs of Iceberg tables: where engines find by which metadata file they load a table."""
