"""Commands for authors of workflows: new, draft, validate, test, who-sees."""
