"""Targets of calls: what their owners demand, for calls and for people."""
