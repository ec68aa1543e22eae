import gc
import weakref

from formulary_catalog.runtime.process import spare_what_stays


class Node:
    def __init__(self) -> None:
        self.itself = self


def test_collections_find_what_comes_later_and_do_not_look_at_what_was_there() -> None:
    before, garbage = Node(), weakref.ref(Node())
    try:
        spare_what_stays()
        looked_at = {id(each) for each in gc.get_objects()}
        assert id(before) not in looked_at
        assert garbage() is None, "what was garbage before went"
        later = weakref.ref(Node())
        gc.collect()
        assert later() is None
    finally:
        gc.unfreeze()
