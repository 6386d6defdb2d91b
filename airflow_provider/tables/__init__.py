"""Table formats behind one contract (``tables.base``); which one a table has only the factory knows."""
