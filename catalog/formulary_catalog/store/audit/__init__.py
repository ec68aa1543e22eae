"""The audit trail: events, reading, checkpoints, retention and keys."""
