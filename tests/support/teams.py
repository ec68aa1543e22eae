"""Namespaces on the node of the lab, beside those of faults."""

CALM, STRICT, TURNED = "team-calm", "team-strict", "team-turned"
"""Two for the same question under different labels, one whose labels change."""
WATCHED = "team-watched"
"""Its alerts are incidents."""
TEAMS = (CALM, STRICT, TURNED, WATCHED)
