"""Migrations, one module per schema version. A released one is never changed."""
