"""The picture of what a workflow is connected with."""

import xml.etree.ElementTree as ElementTree

import pytest

from formulary_catalog.domain.answers.browsing import RelatedEntity
from formulary_catalog.domain.workflows.relations import RELATIONS
from formulary_catalog.server.console.pictures.relations import MAX_SHOWN, relations_picture

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '</text><script>alert(1)</script>" onload="x" \u202egnp.&amp;'


def neighbour(name: str, *, relation: str = "requires", direction: str = "outgoing", depth: int = 1) -> RelatedEntity:
    return RelatedEntity(name=name, type="workflow", relation=relation, direction=direction, depth=depth, uri="")


def drawn(*related: RelatedEntity, name: str = "formulary/drain") -> ElementTree.Element:
    picture = relations_picture(name, related)
    return ElementTree.fromstring(str(picture).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


def texts(picture: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in picture.iter(f"{SVG}text")]


def test_a_workflow_without_neighbours_has_no_picture() -> None:
    assert relations_picture("formulary/drain", []) == ""
    assert relations_picture("formulary/drain", [neighbour("far", depth=2)]) == ""


def test_it_is_an_image_with_a_title_that_says_how_many_there_are() -> None:
    picture = drawn(neighbour("one"), neighbour("two", direction="incoming"), neighbour("three", direction="incoming"))
    title = picture.find(f"{SVG}title")
    assert picture.get("role") == "img"
    assert title is not None
    assert picture.get("aria-labelledby") == title.get("id")
    assert title.text == "2 lead to formulary/drain, which leads to 1"


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_relation_is_named_on_its_arrow(relation: str) -> None:
    picture = drawn(neighbour("other", relation=relation))
    assert len(texts(picture)) == 3
    assert all(texts(picture))
    assert len(list(picture.iter(f"{SVG}path"))) == 2  # the head of arrows, and one arrow


def test_what_is_connected_in_several_ways_is_drawn_once() -> None:
    picture = drawn(
        neighbour("other"), neighbour("other", relation="mentions"), neighbour("other", relation="mentions")
    )
    assert sorted(texts(picture)) == ["formulary/drain", "other", "requires, mentions"]


def test_texts_are_escaped_and_say_what_hides_in_them() -> None:
    picture = drawn(neighbour(HOSTILE), name=HOSTILE)
    assert {each.tag.removeprefix(SVG) for each in picture.iter()} <= {
        *("svg", "title", "defs", "marker", "path", "g", "rect", "text")
    }
    assert not [name for each in picture.iter() for name in each.keys() if name.startswith("on") or name == "style"]
    assert "\u202e" not in relations_picture(HOSTILE, [neighbour(HOSTILE)])
    whole = [each.text or "" for each in picture.iter(f"{SVG}title")]
    assert sum(HOSTILE.replace("\u202e", "\ufffd") == each for each in whole) == 2


def test_many_neighbours_end_with_how_many_more_there_are_and_all_stay_inside() -> None:
    picture = drawn(*(neighbour(f"neighbour-{number}") for number in range(MAX_SHOWN + 5)))
    assert "and 5 more, in the list" in texts(picture)
    _, _, width, height = map(float, picture.attrib["viewBox"].split())
    for box in picture.iter(f"{SVG}rect"):
        x, y = float(box.attrib["x"]), float(box.attrib["y"])
        assert 0 <= x <= width - float(box.attrib["width"])
        assert 0 <= y <= height - float(box.attrib["height"])
