"""`./dev suite`: what is reported, from the report of pytest and the listed exceptions."""

from __future__ import annotations

import pytest

from tools.suite.array_api import EXCEPTIONS, parse_exceptions, parse_report, report

XML = """<testsuites><testsuite>
<testcase classname="array_api_tests.test_fft" name="test_fft" />
<testcase classname="array_api_tests.test_linalg" name="test_svd"><failure message="wrong&#10;more">
text</failure></testcase>
<testcase classname="array_api_tests.test_linalg" name="test_qr"><error message="worse"/></testcase>
<testcase classname="array_api_tests.test_linalg" name="test_eig"><skipped message="no"/></testcase>
</testsuite></testsuites>"""


def test_a_report_is_parsed() -> None:
    outcome = parse_report(XML)
    assert outcome.counts == {"passed": 1, "failed": 2, "skipped": 1}
    assert outcome.failures == {"test_linalg::test_svd": "wrong", "test_linalg::test_qr": "worse"}


def test_an_unlisted_failure_is_a_fault() -> None:
    outcome = parse_report(XML)
    accepted = parse_exceptions("# a comment\n\ntest_linalg::test_svd # no such thing\n")
    lines, status = report(outcome, accepted, whole=True)
    assert status == 1
    assert lines == [
        "FAILED test_linalg::test_qr: worse",
        "accepted test_linalg::test_svd: no such thing",
        "skipped test_linalg::test_eig: no",
        "array-api: 1 of 4 tests pass, 2 fail (1 listed), 1 are skipped",
    ]


def test_a_listed_test_that_passes_is_a_fault() -> None:
    outcome = parse_report(XML)
    listed = {"test_linalg::test_svd": "a", "test_linalg::test_qr": "b", "test_fft::test_fft": "c"}
    assert report(outcome, listed, whole=True)[1] == 1
    assert report(outcome, listed, whole=False)[1] == 0


def test_an_exception_has_a_reason() -> None:
    with pytest.raises(ValueError, match="no reason"):
        parse_exceptions("test_linalg::test_svd\n")
    parse_exceptions(EXCEPTIONS.read_text())
