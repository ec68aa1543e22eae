"""Runs: asked for, decided, followed and approved."""
