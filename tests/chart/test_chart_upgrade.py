"""Values of an earlier chart: with `helm upgrade --reuse-values` they, and its defaults, are all that this one gets."""

import json
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from support import charts

EARLIER = Path(__file__).parent / "earlier"
"""values.yaml of earlier charts, by their commit."""
EXTERNAL = charts.EXTERNAL["database"]["external"]


def _reused(path: Path, more: dict[str, Any]) -> dict[str, Any]:
    """What Helm hands the new chart: the values of the release, over the defaults of the chart that made it."""
    return _over(yaml.safe_load(path.read_text()), more)


def _over(under: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    merged = {name: value for name, value in values.items() if not isinstance(value, dict)}
    nested = {name: _over(under.get(name) or {}, value) for name, value in values.items() if isinstance(value, dict)}
    return {**under, **merged, **nested}


@pytest.fixture(scope="module")
def without_defaults(tmp_path_factory: pytest.TempPathFactory) -> helm_python.Chart:
    """This chart as `--reuse-values` leaves it: nothing is in values.yaml that the old one did not have."""
    place = tmp_path_factory.mktemp("chart") / "formulary"
    for source in charts.CHART.rglob("*"):
        if source.is_file():
            target = place / source.relative_to(charts.CHART)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    (place / "values.yaml").write_text("{}\n")
    return helm_python.Chart.load(place)


def _objects(chart: helm_python.Chart, values: dict[str, Any]) -> dict[tuple[str, str], Any]:
    rendered = chart.render(values, name="formulary", namespace="formulary", is_install=False, is_upgrade=True)
    texts = (text for path, text in rendered.items() if not path.endswith(".txt"))
    documents = (found for text in texts for found in yaml.safe_load_all(text) if found)
    # The key in a Secret is new with each rendering without a cluster.
    return {(found["kind"], found["metadata"]["name"]): found for found in documents if found["kind"] != "Secret"}


@pytest.mark.parametrize("earlier", sorted(EARLIER.glob("*.yaml")), ids=lambda path: path.stem)
def test_values_of_an_earlier_chart_with_its_defaults_upgrade_and_keep_their_meaning(
    without_defaults: helm_python.Chart, earlier: Path
) -> None:
    values = _reused(earlier, {"database": {"external": EXTERNAL}, "execution": {"namespaces": ["payments"]}})
    without_defaults.validate_schema(values)
    objects = _objects(without_defaults, values)

    assert {name for kind, name in objects if kind == "Deployment"} == {"formulary-server", "formulary-operator"}
    assert not [name for kind, name in objects if kind == "PersistentVolumeClaim"]
    assert not [name for kind, name in objects if kind == "Job" and "starter" in name]
    text = json.dumps(list(objects.values()))
    assert '{"name": "FORMULARY_EXECUTION", "value": "auto"}' in text
    assert ("ClusterRole", "formulary-formulary-runs") in objects


def test_without_any_defaults_the_chart_renders_as_with_them(without_defaults: helm_python.Chart) -> None:
    assert _objects(without_defaults, charts.EXTERNAL) == _objects(charts.chart(), charts.EXTERNAL)
