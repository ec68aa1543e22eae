"""The benchmark of large catalogs says of each goal whether it was reached."""

from scale_report import ClassResult, Times, goals
from scale_subject import WAYS
from workload import SCALE_CLASSES


def _classes(*, recall: float = 1.0, **milliseconds: float) -> list[ClassResult]:
    times = {way: Times(p50=milliseconds.get(way.split()[0], 1.0), p95=9.0) for way in WAYS}
    return [ClassResult(name=each.name, candidates=5, recall=recall, lost=0, times=times) for each in SCALE_CLASSES]


def test_a_search_is_held_against_the_sorted_scan_of_the_same_run() -> None:
    verdicts = {each.what: each for each in goals({100_000: _classes(whole=20.0, exact=9.0)})}

    typical = verdicts["typical: exact search to numpy"]
    assert (typical.measured, typical.limit, typical.met) == (9.0, 8.0, False)
    assert verdicts["signal only: exact search to numpy"].met
    assert not verdicts["signal only: whole search to numpy"].met
    assert verdicts["no signal, unfiltered: whole search"].met


def test_what_words_cost_is_held_against_the_search_without_them() -> None:
    verdicts = {each.what: each for each in goals({100_000: _classes(exact=2.0, candidates=4.1)})}

    assert not verdicts["typical: with words to exact search"].met


def test_growth_needs_both_sizes() -> None:
    small, large = _classes(exact=1.0), _classes(exact=1.5)

    assert not [each for each in goals({10_000: small}) if "10,000 to 100,000" in each.what]
    grown = [each for each in goals({10_000: small, 100_000: large}) if "exact search, 10,000 to 100,000" in each.what]
    assert [(each.measured, each.met) for each in grown] == [(1.5, True)] * 2


def test_an_unfiltered_search_is_held_against_the_scan_of_the_same_rows() -> None:
    results = {1_000: _classes(whole=15.0), 100_000: _classes(whole=2.1)}
    verdicts = [each.met for each in goals(results) if "to numpy's scan" in each.what]

    assert verdicts == [True, False]


def test_one_lost_answer_where_a_search_is_exact_misses_the_goal() -> None:
    results = {1_000: _classes(recall=0.9999), 10_000: _classes(), 100_000: _classes(recall=0.9999)}
    recalls = [each for each in goals(results) if "recall" in each.what]

    assert [each.met for each in recalls] == [False, True, False, True]
