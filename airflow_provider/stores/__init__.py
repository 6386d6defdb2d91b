"""Metadata stores behind one small contract (``stores.base``); only the factory knows which one is in use."""
