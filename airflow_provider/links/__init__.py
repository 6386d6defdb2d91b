"""Links from a task to the page of tables and epochs."""
