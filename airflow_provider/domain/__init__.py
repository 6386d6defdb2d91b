"""Values and decisions of the epoch protocol: no input, no output; time is always an argument."""
