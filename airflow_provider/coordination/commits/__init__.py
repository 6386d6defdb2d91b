"""What a commit of any kind needs: registrations, dependents, pointers, columns, rows of other programs."""
