"""An attempt's way through the protocol, from begin to publish."""
