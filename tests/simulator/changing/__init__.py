"""Domains whose declarations change while they run: generated from a seed, not written down."""
