"""The job `prove`: proves the rules, tries the procedures on their examples, records the results.

    ./dev prove [WORD...] [--record] [--all] [--json FILE]
    ./dev prove --rule RULE [--theory THEORY]

With --record, only what has changed since it was recorded is proved again, unless --all is given.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from porism import cli
from porism.base.errors import PorismError
from porism.catalogue import rule_listing, rules_page
from porism.prove import proof_report
from porism.rules import proof_record
from tests.examples.catalogue_examples import EXAMPLES, entry, is_current


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; its exit status is 1 if something is not established, 2 after a user's error."""
    options = _parser().parse_args(arguments)
    try:
        return _prove_typed(options) if options.rule is not None else _prove(options)
    except PorismError as error:
        print(f"porism: error: {error}", file=sys.stderr)
        return cli.USER_ERROR


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev prove", description=__doc__)
    cli.prove_arguments(parser)
    parser.add_argument(
        "--record", action="store_true", help="keep how each rule is established, for porism rules"
    )
    parser.add_argument(
        "--all", action="store_true", help="with --record: prove also what has not changed"
    )
    return parser


def _prove_typed(options: argparse.Namespace) -> int:
    if options.record or options.all:
        raise PorismError(
            "--rule does not go together with --record and --all",
            why="it proves the typed rule alone, which no record has",
            fix="leave them out",
        )
    return cli.prove_typed(options)


def _prove(options: argparse.Namespace) -> int:
    rules, with_bounds = cli.rules_to_prove(options)
    if options.record and not options.all:
        chosen, with_bounds = len(rules), False
        rules = [item for item in rules if not is_current(item)]
        print(f"{chosen - len(rules)} of {chosen} rules are recorded as they are")
    report = proof_report.run(
        rules, with_bounds=with_bounds, json_file=options.json, examples=EXAMPLES
    )
    if options.record:
        _record(report)
    else:
        proof_report.warn_of_stale_record(report, rules)
    return 0 if report.ok else 1


def _record(report: proof_report.Report) -> None:
    """Write what was established to the record, and the page of rules; nothing after a fault."""
    if not report.ok:
        print("nothing is recorded, since not all is established")
        return
    known = proof_record.entries()
    record = {}
    for item in rule_listing.KNOWN:
        if item.name in report.established:
            record[item.name] = entry(item, report.established[item.name])
        elif item.name in known:  # the text of its example may have changed
            old = known[item.name]
            new = entry(item, old.established)
            record[item.name] = new if is_current(item) else old
    proof_record.write(record)
    print(f"recorded {len(report.established)} rules in {proof_record.FILE.name}")
    if rules_page.FILE.is_file():
        rules_page.FILE.write_text(rules_page.page(), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
