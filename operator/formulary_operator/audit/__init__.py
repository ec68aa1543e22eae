"""The audit trail watched over by the operator."""
