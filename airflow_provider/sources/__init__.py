"""Sources (``sources.readers``): external data, and the part of it that lies within recorded bounds."""
