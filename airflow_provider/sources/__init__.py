"""Sources of roots (``sources.roots``): external data, and the part of it that lies within recorded bounds."""
