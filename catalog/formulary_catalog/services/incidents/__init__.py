"""Incidents that other systems report: taken in from the sources that may report them."""
