"""Searches, and why a workflow is in an answer."""
