"""What a workflow is: its manifest, labels, identity and input. Pure."""
