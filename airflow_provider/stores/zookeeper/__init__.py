"""ZooKeeper as a metadata store: for several hosts, where an ensemble is there already."""
