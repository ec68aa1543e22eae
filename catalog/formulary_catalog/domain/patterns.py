"""Patterns that fields must match, and what each asks for in words.

Models are declared with the patterns, and schemas publish them. Who breaks one is shown the words, by `problems`. A
test holds the words to the patterns: each is written in both ways, and both must take the same texts.
"""

from collections.abc import Mapping

ADDRESS = r"[^@\s]+@[^@\s]+\.[^@\s]+"
"""What an e-mail address looks like, without anchors."""
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
CAMEL_CASE = r"^[A-Z][A-Za-z0-9]*$"
EMAIL = rf"^{ADDRESS}$"
BEGIN_OF_HOURS = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
END_OF_HOURS = r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"
RUN_ID = "^inv-[0-9a-f]{20}$"
DIGEST_OR_NONE = "^(sha256:[0-9a-f]{64})?$"

DURATION = r"^(0s|[1-9][0-9]{0,3}s|[1-9][0-9]?m|[1-6]h)$"
"""Up to 6 h: nobody waits longer to learn whether a run helped."""
DURATION_FROM_MINUTE = r"^([6-9][0-9]s|[1-9][0-9]{2,3}s|[1-9][0-9]?m|[1-6]h)$"
"""A problem that is gone for some seconds is not solved."""
IN_WORDS: Mapping[str, str] = {
    DNS_SUBDOMAIN: "must consist of lower-case letters (a to z), digits, '-' and '.', with a letter or digit at both "
    "ends and on both sides of each '.'",
    DNS_LABEL: "must consist of lower-case letters (a to z), digits and '-', with a letter or digit at both ends",
    CAMEL_CASE: "must consist of letters (A to Z, a to z) and digits and begin with a capital, such as RestartPod",
    EMAIL: "must be an e-mail address: without spaces, one '@', and a '.' inside the part after it",
    BEGIN_OF_HOURS: "must be a time of day as HH:MM, from 00:00 to 23:59",
    END_OF_HOURS: "must be a time of day as HH:MM, from 00:00 to 24:00",
    RUN_ID: "must be the id of a run: 'inv-' and 20 hexadecimal digits (0 to 9, a to f)",
    DIGEST_OR_NONE: "must be a digest, 'sha256:' and 64 hexadecimal digits (0 to 9, a to f), or empty",
    DURATION: "must be a duration: 0s to 9999s, 1m to 99m or 1h to 6h, without leading zeros",
    DURATION_FROM_MINUTE: "must be a duration of a minute or more: 60s to 9999s, 1m to 99m or 1h to 6h, without "
    "leading zeros",
}
