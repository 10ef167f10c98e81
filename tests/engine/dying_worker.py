"""A worker that dies at its first job."""

from __future__ import annotations

import os
import signal

from porism.engine import worker
from porism.engine.crew import Answer, Job


def dies(job: Job) -> Answer:
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError("it is dead")


if __name__ == "__main__":
    worker.JOBS = dict.fromkeys(worker.JOBS, dies)  # type: ignore[misc]
    worker.main()
