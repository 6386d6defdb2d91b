"""Alembic's environment and the schema's versions; run by ``stores.sql.migrate``."""
