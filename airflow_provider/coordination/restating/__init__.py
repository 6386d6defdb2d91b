"""Restatements: plan, compute in private, compare, approve, and publish whole (R28, R29)."""
