"""Metadata stores in SQL databases; each database has a dialect."""
