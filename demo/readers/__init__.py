"""Processes that read all tables all the time and compare what they see with the source files' totals."""
