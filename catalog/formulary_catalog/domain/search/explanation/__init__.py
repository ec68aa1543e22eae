"""Why a workflow is in an answer and why not: its evidence, and the answers that say so."""
