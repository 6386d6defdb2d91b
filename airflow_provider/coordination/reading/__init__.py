"""Cuts, leases, waiting, the change feed: nothing here changes a table."""
