"""Read-only Iceberg REST catalog, by which engines read cuts: docs/decisions/rest-catalog.md."""
