"""The use cases of the protocol, written once on the interfaces of stores and tables."""
