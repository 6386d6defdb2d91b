"""Reading in plain Python: an open store, cuts with methods, leases."""
