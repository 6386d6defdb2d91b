"""PostgreSQL as a metadata store: for several hosts."""
