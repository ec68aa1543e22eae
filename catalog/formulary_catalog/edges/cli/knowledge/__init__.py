"""Commands about documents: sections of workflows, runbooks and what else agents may read."""
