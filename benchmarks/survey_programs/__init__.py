"""Survey programs: 200 that people write, from networks, statistics, images and simulations."""

from __future__ import annotations

from benchmarks.survey_programs import arrays, convolutions, images, matrices, sequences

SURVEY = {
    name: workload
    for group in (convolutions, sequences, matrices, images, arrays)
    for name, workload in group.PROGRAMS.items()
}
"""By name, those of a topic one after the other."""
QUICK = ("conv1x1_small_image", "lstm_step_32", "products_8x8", "pool_max_2", "concat_100_rows")
"""A few small ones, to see that the survey works."""
