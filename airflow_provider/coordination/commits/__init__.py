"""Parts that commits of all kinds share: registrations, dependents, pointers, columns, rows of other programs."""
