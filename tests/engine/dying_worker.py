"""A worker that dies at its first job."""

from __future__ import annotations

import os
import signal

from porism.engine.tune import tuning_worker
from porism.engine.tune.worker_pool import Answer, Job


def dies(job: Job) -> Answer:
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError("it is dead")


if __name__ == "__main__":
    tuning_worker.JOBS = dict.fromkeys(tuning_worker.JOBS, dies)  # type: ignore[misc]
    tuning_worker.main()
