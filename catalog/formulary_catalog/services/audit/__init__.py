"""Services that read the trail for people."""
