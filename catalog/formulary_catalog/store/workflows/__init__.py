"""Workflow versions, their search rows, vectors and models."""
