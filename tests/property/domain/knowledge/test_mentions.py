"""Whatever stands around it, a name that leads to a workflow is found in a text."""

from hypothesis import example, given
from hypothesis import strategies as st

from formulary_catalog.domain.knowledge.mentions import KnownWorkflow, named_workflows, possible_names

LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(LABEL, min_size=1, max_size=3).map(".".join)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
ID = "wf_ver_0123456789abcdef0123"
FORMS = ("{ns}/{name}", "{ns}/{name}@1.0.0", "workflow://{ns}/{name}@1.0.0#steps", "{id}", "{id}#steps")


@given(namespace=LABEL, name=NAMES, form=st.sampled_from(FORMS), before=TEXTS, after=TEXTS, upper=st.booleans())
@example(namespace="a", name="b", form="{ns}/{name}", before="either:", after=". Then", upper=True)
def test_a_form_that_leads_to_a_workflow_names_it_in_any_text(
    namespace: str, name: str, form: str, before: str, after: str, upper: bool
) -> None:
    said = form.format(ns=namespace, name=name, id=ID)
    text = f"{before} {said.upper() if upper else said} {after}"
    known = KnownWorkflow(ID, namespace, name, "")
    assert known.qualified in named_workflows(text, known=[known], shown=())


@given(name=NAMES.filter(lambda name: "-" in name or "." in name), before=TEXTS, after=TEXTS)
def test_a_name_with_a_hyphen_or_a_dot_is_a_name_by_itself(name: str, before: str, after: str) -> None:
    assert name in possible_names(f"{before} {name}, {after}")


@given(text=st.lists(st.sampled_from(["restart", "the", "pod", "(now)", "twice!"]), max_size=8).map(" ".join))
def test_english_names_no_workflow_that_was_not_shown(text: str) -> None:
    known = KnownWorkflow(ID, "shop", "restart", "Restart the pod")
    assert named_workflows(text, known=[known], shown=()) == frozenset()
    shown = "restart" in text.split()
    assert named_workflows(text, known=[known], shown=[ID]) == (frozenset(["shop/restart"]) if shown else frozenset())
