"""Runs for every edge: prepared, submitted, followed and approved."""
