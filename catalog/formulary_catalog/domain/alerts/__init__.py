"""Alerts of other systems: the sources that send them, what they are about, and their episodes."""
