"""Notifications: what people are told of runs, in which form, and who receives it."""
