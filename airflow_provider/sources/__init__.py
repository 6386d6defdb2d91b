"""The sources of roots (``sources.roots``): data of others, and what of it lies within bounds."""
