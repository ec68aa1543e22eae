"""`formulary trace`: the audit trail, shown, verified, exported and kept."""
