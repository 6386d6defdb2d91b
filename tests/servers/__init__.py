"""Real servers of one's own on this host, started natively: for tests, benchmarks and the demo."""
