"""What the audit trail holds: hash chains, checkpoints, verification and narration. Pure."""
