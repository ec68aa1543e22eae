"""What a run is, and what decides whether it may start. Pure."""
