"""The setting for authentication: with what commands refuse to start."""

from formulary_catalog.errors import StartupError
from support.commands import formulary_now


def test_an_unknown_way_to_authenticate_is_refused_with_the_known_ones() -> None:
    done = formulary_now("serve", FORMULARY_DATABASE_URL="postgresql://nowhere", FORMULARY_AUTHENTICATION="ldap")

    assert done.code == StartupError.exit_code
    assert "FORMULARY_AUTHENTICATION is 'ldap', which is not installed; known are: none, kubernetes" in done.err


def test_a_server_that_asks_nobody_still_listens_on_loopback_alone() -> None:
    done = formulary_now("serve", "--host", "0.0.0.0", FORMULARY_DATABASE_URL="postgresql://nowhere")

    assert done.code == StartupError.exit_code
    assert "there is no authentication" in done.err


def test_formulary_up_does_not_pretend_to_authenticate() -> None:
    done = formulary_now("up", "--host", "0.0.0.0", FORMULARY_AUTHENTICATION="kubernetes")

    assert done.code == StartupError.exit_code
    assert "unset FORMULARY_AUTHENTICATION" in done.err
