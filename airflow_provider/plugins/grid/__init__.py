"""The page's application: authenticated routes over a read-only side of the store."""
