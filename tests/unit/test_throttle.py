"""Log lines that could be caused without end."""

from formulary_catalog.log import Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_one_of_a_kind_in_ten_seconds_speaks_for_all() -> None:
    clock = Clock()
    throttled = Throttle(clock=clock)
    assert [throttled.admit("a") for _ in range(5)] == [1, 0, 0, 0, 0]
    assert throttled.admit("b") == 1
    clock.now += 10
    assert [throttled.admit("a"), throttled.admit("a")] == [5, 0]


def test_any_number_of_kinds_takes_bounded_memory() -> None:
    throttled = Throttle(clock=Clock(), kinds=3)
    assert all(throttled.admit(kind) == 1 for kind in range(10))
    assert [throttled.admit(9), throttled.admit(0)] == [0, 1]
