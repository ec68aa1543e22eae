"""GovernanceContract objects: reconciled into the rules in force."""
