"""Notifications: what is reported of runs, in which form, and who receives it."""
