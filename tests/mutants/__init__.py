"""The mutation gate: wrong rules are planted one by one, and each must make a test fail."""
