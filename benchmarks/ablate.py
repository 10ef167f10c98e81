"""Ablate: what each feature of loop scheduling gives, over workloads and programs of the survey.

Each feature (`features.py`) is switched off in a process of its own. Where the code of a program is
then another, it is timed beside the complete compiler, with interleaved samples; elsewhere the
ratio is 1. Shown are, for each feature: the programs whose code changes, the geometric mean over
these of the time without it divided by the time with it, and the extremes. A ratio below 1 says
that the feature makes that program slower.

With --json FILE the figures are added to those in the file; --resume leaves out programs that are
there, and --seconds N ends after so long.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from rich import box
from rich.table import Table

from benchmarks.cpu import names
from benchmarks.cpu_backends import WITHOUT
from benchmarks.cpu_sampling import Backends, Cell, Cells, threads_here
from benchmarks.cpu_table import console, replace_part
from benchmarks.features import FEATURES
from benchmarks.survey import mean

PROGRAMS = (
    "mm_127", "mm_256", "mm_511", "mm_1024", "mm_4096x64x64", "mm_64x64x4096", "gemv_4096",
    "gemv_4096_right", "bmm_32x128x64x128", "bmm_256x16x16x16", "xtx_2048x512",
    "mm_bias_gelu_1024", "conv3x3", "conv1x1", "conv3x3_stride2", "conv3x3_groups32", "dwconv3x3",
    "attention_12x512x64", "gpt2_block_128", "resnet50_b1", "add_4096", "ew_chain_16M",
    "rowsum_4096", "colsum_4096", "sum_256x256x256_axis1", "argmax_4096", "cumsum_4096",
    "softmax_4096", "layernorm_4096", "rmsnorm_rope", "transpose_4096", "embed_32000x768",
    "maxpool3x3s2", "survey/lstm_step_32", "survey/lstm_sequence", "survey/swiglu_batch_4",
    "survey/swiglu_batch_128", "survey/conv3x3_small_image", "survey/conv_odd_sizes",
    "survey/conv7x7_stem", "survey/lenet", "survey/dense_layers_32", "survey/covariance",
    "survey/group_norm_32", "survey/softmax_10", "survey/channels_last", "survey/swap_heads",
    "survey/running_sum_4m", "survey/blur_two_passes", "survey/bytes_to_input",
    "survey/pool_mean_3", "survey/add_rows_100k", "survey/product_of_transposed",
)  # fmt: skip
QUICK = ("mm_128", "softmax_512")
Figures = dict[str, dict[str, float]]
"""By program and feature, the time without it divided by the time with it."""


def measured(
    programs: list[str], features: list[str], kept: Figures, options: argparse.Namespace
) -> None:
    """Add the ratios of programs to those that are kept."""
    begin = time.monotonic()
    backends = ["porism", *(WITHOUT + name for name in features)]
    settings = {name: {"PORISM_CACHE": "0"} for name in backends}
    exact = "torch" if any(name.startswith("survey/") for name in programs) else None
    started = [*backends, exact] if exact else backends
    with Backends(started, options.threads, settings, exact) as workers:
        for fault, why in workers.missing.items():
            print(f"{fault} is not measured: {why}")
        for name in programs:
            cells = changed_by(workers.prepare(name))
            workers.sample(name, cells)
            kept[name] = ratios(cells, features)
            if options.json:
                options.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
            if options.seconds and time.monotonic() - begin > options.seconds:
                return


def changed_by(cells: Cells) -> Cells:
    """Those whose code is not that of the complete compiler, and that."""
    own = cells["porism"]
    return {
        backend: cell
        for backend, cell in cells.items()
        if backend.startswith("porism") and (backend == "porism" or not is_same(cell, own))
    }


def ratios(changed: Cells, features: list[str]) -> dict[str, float]:
    """By feature: 1 where the code is the same, 0 where there is no right result."""
    own = changed["porism"]
    found: dict[str, float] = {}
    for feature in features:
        cell = changed.get(WITHOUT + feature)
        if cell is None:
            found[feature] = 1.0
        else:
            right = "seconds" in cell and cell["right"] and "seconds" in own
            found[feature] = cell["seconds"] / own["seconds"] if right else 0.0
    return found


def is_same(cell: Cell, own: Cell) -> bool:
    return "failed" not in cell and cell["code"] == own.get("code")


def lines(kept: Figures) -> list[list[str]]:
    """A row for each feature; that which gives most comes first."""
    rows = []
    for feature in FEATURES:
        found = {name: row[feature] for name, row in kept.items() if feature in row}
        changed = {name: ratio for name, ratio in found.items() if ratio not in (0.0, 1.0)}
        failed = [name for name, ratio in found.items() if ratio == 0.0]
        order = sorted(changed, key=changed.__getitem__)
        average = mean(list(changed.values())) if changed else 1.0
        extremes = [f"{short(name)} {changed[name]:.2f}" for name in (*order[-1:], *order[:1])]
        texts = [f"{len(changed)}", f"{average:.3f}" if changed else "", *(extremes or ["", ""])]
        overall = mean([ratio for ratio in found.values() if ratio]) if found else 1.0
        rows.append((overall, [feature, *texts, ", ".join(map(short, failed)), f"{overall:.3f}"]))
    return [row for _, row in sorted(rows, key=lambda pair: -pair[0])]


def short(name: str) -> str:
    return name.removeprefix("survey/")


COLUMNS = ("without", "programs", "mean", "most", "least", "fails", "mean of all")


def show(kept: Figures) -> None:
    table = Table(title="time without a feature, divided by the time with it", box=box.SIMPLE_HEAD)
    for name in COLUMNS:
        table.add_column(name, no_wrap=True)
    for row in lines(kept):
        table.add_row(*row)
    console().print(table)


def markdown(kept: Figures) -> str:
    """The table of features without which some code changes, and the names of the others."""
    rows = lines(kept)
    useful = [row for row in rows if row[1] != "0" or row[5]]
    others = [row[0] for row in rows if row not in useful]
    unchanged = f" No code changes without {', '.join(others)}." if others else ""
    return "\n".join(
        (
            f"{len(kept)} programs.{unchanged}",
            "",
            "| " + " | ".join(COLUMNS) + " |",
            "|---|--:|--:|---|---|---|--:|",
            *("| " + " | ".join(row) + " |" for row in useful),
        )
    )


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench ablate",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--only", metavar="NAMES", help="programs, with commas")
    parser.add_argument("--features", metavar="NAMES", help="features, with commas")
    parser.add_argument("--quick", action="store_true", help="two small programs")
    parser.add_argument("--threads", type=int, default=threads_here())
    parser.add_argument("--json", type=Path, metavar="FILE", help="add the figures to this file")
    parser.add_argument("--resume", action="store_true", help="only what the file does not have")
    parser.add_argument("--seconds", type=float, help="end after so long")
    parser.add_argument("--show", action="store_true", help="measure nothing, show the file")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the table into a page")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    kept: Figures = {}
    if options.json and options.json.exists():
        kept = json.loads(options.json.read_text(encoding="utf-8"))
    programs = list(QUICK if options.quick else PROGRAMS)
    if options.only:
        programs = names(options.only, list(PROGRAMS), "program")
    features = names(options.features, list(FEATURES), "feature") if options.features else FEATURES
    left = [name for name in programs if not (options.resume and name in kept)]
    if left and not options.show:
        measured(left, list(features), kept, options)
    show(kept)
    if options.page:
        replace_part(options.page, "ablation", markdown(kept))


if __name__ == "__main__":
    main()
