"""Metadata stores behind one small contract (``stores.base``); which one is in use only the factory knows."""
