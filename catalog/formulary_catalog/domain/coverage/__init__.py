"""Which alerts and signals the catalog has a remedy for, and which workflows need upkeep: pure rules and answers."""
