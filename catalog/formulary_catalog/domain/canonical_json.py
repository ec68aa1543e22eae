"""Canonical JSON: the one text of a value, of which hashes, ids and signatures are made.

Called for versions of workflows, events of the audit trail, requests and contents of runs, verdicts and sealed
constraints. Its bytes must not change, since databases hold hashes of them.
"""

import json
from typing import Any


def canonical_json(value: Any, *, ascii_only: bool = False) -> str:
    """The text: keys sorted, no spaces, no more escaped than must be.

    `ascii_only` escapes everything outside of ASCII. Sealed constraints need it: an unpaired surrogate, which neither
    UTF-8 nor PostgreSQL can hold, has a form then. All others refuse or replace such a text where they encode it.

    Raises:
        ValueError: a number is not finite, or the value contains itself.
        TypeError: a value is none of JSON.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii_only, allow_nan=False)
