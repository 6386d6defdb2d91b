"""Metadata store on ZooKeeper: for several hosts, if there is an ensemble already."""
