"""Table formats behind one contract (``tables.base``); only ``tables.factory`` knows the formats by name."""
