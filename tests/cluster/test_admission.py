"""The admission webhook as the API server calls it: through a Service, with the operator's own certificate."""

import asyncio
import base64
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from formulary_catalog.store.workflows.writer import CatalogWriter
from formulary_operator.admission.certificates import ServingCertificate, directory
from formulary_operator.admission.issuing import issue, usable
from formulary_operator.admission.review import path_of
from formulary_operator.admission.validator import Validator
from formulary_operator.admission.webhook import application
from formulary_operator.api.names import SECRETS
from formulary_operator.serving import served
from formulary_operator.workflows.translate import entry_of
from support.admission import INVALID, SECRET, SERVICE, TOKEN, Place, configured, judging
from support.connection_limits import connection_limits
from support.manifest import workflow


@pytest.mark.smoke
async def test_an_invalid_workflow_is_denied_with_the_field_and_what_is_wrong(
    place: Place, workflows: CatalogWriter, judge: Validator
) -> None:
    async with judging(place, judge):
        denial = await place.denial(INVALID)
        assert '"workflows.formulary.dev" denied the request: spec.labels.severity: ' in denial
        assert "(got 5)" in denial
        assert await place.denial(INVALID, "--dry-run=server") == denial


async def test_a_valid_workflow_passes_and_a_dry_run_leaves_nothing(place: Place, judge: Validator) -> None:
    async with judging(place, judge):
        assert "created (server dry run)" in await place.apply(workflow("restart"), "--dry-run=server")
        assert "restart created" in await place.apply(workflow("restart"))
        assert "restart unchanged" in await place.apply(workflow("restart"))


async def test_other_content_under_a_stored_version_is_denied_and_under_a_new_one_passes(
    place: Place, workflows: CatalogWriter, judge: Validator
) -> None:
    async with judging(place, judge):
        await place.apply(workflow("restart"))
        stored = place.plane.get("rw", "restart", f"--namespace={place.namespace}")
        await workflows.apply(entry_of(stored))
        denial = await place.denial(workflow("restart", what="Deletes it."))
        assert "(VersionImmutable)" in denial
        assert f"{place.namespace}/restart 1.0.0 is already stored with other content" in denial
        assert "raise spec.version" in denial
        assert "configured" in await place.apply(workflow("restart", version="1.0.1", what="Deletes it."))
        assert "configured" in await place.apply(workflow("restart", version="1.0.0"))
        assert "configured" in await place.apply(workflow("restart", suspend=True))


async def test_an_object_that_became_invalid_can_still_be_labelled_and_deleted(place: Place, judge: Validator) -> None:
    await place.apply(INVALID)
    async with judging(place, judge):
        name = ("rw", "invalid", f"--namespace={place.namespace}")
        await asyncio.to_thread(place.plane.kubectl, "label", *name, "team=shop")
        await asyncio.to_thread(place.plane.kubectl, "delete", *name)


async def test_while_the_webhook_is_down_workflows_pass(place: Place, judge: Validator) -> None:
    certificate = ServingCertificate(place.source())
    async with AsyncExitStack() as stack:
        app = application(judge, token=TOKEN)
        webhook = served(app, host="localhost", port=0, limits=connection_limits(), tls=certificate.context)
        async with webhook as port:
            await stack.enter_async_context(configured(place, port=port))
            await certificate.load()
            await place.until_judged()
        assert "created" in await place.apply(INVALID)


async def test_a_certificate_is_renewed_before_it_ends_while_the_webhook_goes_on_judging(
    place: Place, judge: Validator
) -> None:
    names = [*place.names, f"{SERVICE}.{place.namespace}.svc.cluster.local"]
    ending = issue(names, now=datetime.now(UTC) - timedelta(days=340))
    data = {"tls.crt": ending.certificate, "tls.key": ending.key, "ca.crt": ending.authority}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": place.namespace},
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
    await place.client.create(SECRETS.path(namespace=place.namespace), secret)
    async with judging(place, judge) as certificate:
        renewed = await place.stored_pair()
        assert usable(renewed, names=names, now=datetime.now(UTC))
        assert await place.trusted() == {renewed.authority}
        assert renewed.authority.endswith(ending.authority)
        again = renewed
        for _ in range(2):
            await asyncio.to_thread(place.plane.kubectl, "delete", "secret", SECRET, f"--namespace={place.namespace}")
            await certificate.load()
            replaced, again = again, await place.stored_pair()
            assert again != replaced
            assert await place.trusted() == {again.authority}
            await place.until_judged()
            assert "spec.labels.severity" in await place.denial(INVALID)


async def test_replicas_that_start_at_once_serve_the_same_certificate(place: Place) -> None:
    pairs = await asyncio.gather(*(place.self_signed().current() for _ in range(6)))
    assert set(pairs) == {await place.stored_pair()}


@pytest.mark.parametrize("field", ["caBundle", "service/path"])
async def test_what_somebody_resets_is_set_again_and_the_rest_is_kept(place: Place, field: str) -> None:
    async with configured(place, port=1):
        current = place.source()
        pair = await current()
        named = ("validatingwebhookconfiguration", place.configuration)
        before = place.plane.get(*named)["webhooks"]
        reset = f'[{{"op": "remove", "path": "/webhooks/0/clientConfig/{field}"}}]'
        place.plane.kubectl("patch", *named, "--type=json", f"--patch={reset}")
        assert place.plane.get(*named)["webhooks"] != before
        assert await current() == pair
        assert place.plane.get(*named)["webhooks"] == before


async def test_whether_the_api_server_can_ask_is_known_from_the_last_look(place: Place) -> None:
    configuration = place.kept_configuration()
    assert not configuration.is_set()
    async with configured(place, port=1):
        await configuration.keep(authority=b"")
        assert configuration.is_set()
    await configuration.keep(authority=b"")
    assert not configuration.is_set()


async def test_with_a_certificate_of_somebody_else_only_the_path_is_set(place: Place, tmp_path: Path) -> None:
    pair = issue(place.names, now=datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    async with configured(place, port=1):
        named = ("validatingwebhookconfiguration", place.configuration)
        bundle = base64.b64encode(pair.authority).decode()
        trust = f'[{{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "{bundle}"}}]'
        place.plane.kubectl("patch", *named, "--type=json", f"--patch={trust}")
        await place.kept_configuration().kept_for(directory(tmp_path))()
        webhooks = place.plane.get(*named)["webhooks"]
    assert [each["clientConfig"]["service"]["path"] for each in webhooks] == [
        path_of(each["name"], token=TOKEN) for each in webhooks
    ]
    assert [each["clientConfig"].get("caBundle") for each in webhooks] == [bundle, None]


async def test_of_a_webhook_with_an_address_the_path_is_set_in_it(place: Place) -> None:
    async with configured(place, port=1):
        named = ("validatingwebhookconfiguration", place.configuration)
        client = (
            '{"op": "replace", "path": "/webhooks/0/clientConfig", "value": {"url": "https://operator.example:8443/"}}'
        )
        place.plane.kubectl("patch", *named, "--type=json", f"--patch=[{client}]")
        await place.kept_configuration().keep(authority=b"")
        webhook, *_ = place.plane.get(*named)["webhooks"]
    path = path_of(webhook["name"], token=TOKEN)
    assert webhook["clientConfig"] == {"url": f"https://operator.example:8443{path}"}


async def test_a_secret_that_holds_something_else_is_filled(place: Place) -> None:
    empty = {"tls.crt": "", "tls.key": ""}
    metadata = {"name": SECRET, "namespace": place.namespace, "labels": {"kept": "yes"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": empty}
    await place.client.create(SECRETS.path(namespace=place.namespace), secret)
    assert await place.self_signed().current() == await place.stored_pair()
    kept = await place.client.get(SECRETS.path(namespace=place.namespace, name=SECRET))
    assert kept is not None
    assert kept["metadata"]["labels"] == {"kept": "yes"}
