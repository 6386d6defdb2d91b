"""A metadata store in a SQL database: SQLite now; other databases are further dialects beneath it."""
