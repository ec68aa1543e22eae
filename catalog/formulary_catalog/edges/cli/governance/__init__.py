"""Commands about contracts and halts."""
