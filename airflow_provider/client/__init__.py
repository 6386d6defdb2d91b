"""What readers in plain Python use: an open store, cuts with methods, leases."""
