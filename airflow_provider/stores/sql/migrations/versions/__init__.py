"""One module a schema version. A released one is never changed."""
