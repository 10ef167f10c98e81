"""The page of ops is in step with the table."""

from pathlib import Path

from porism.ir import ops
from porism.ir.text import op_reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ops.md"


def test_the_page_is_in_step_with_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == op_reference.page(), (
        "run: python -m porism ops --page > docs/ops.md"
    )


def test_every_op_has_a_row_and_says_what_it_is() -> None:
    page = op_reference.page()
    for op in ops.table():
        assert f"| `{op.name}` |" in page
        assert op.doc
