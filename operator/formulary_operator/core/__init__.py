"""What the operator decides, without input or output."""
