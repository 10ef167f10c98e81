from __future__ import annotations

import sys
import time

from porism.rules.catalogue import KNOWN
from tools.mutate.run import run
from tools.mutate.targets import chosen, normal_form_targets, prepare, procedure_targets

words = sys.argv[1:]
every = [*procedure_targets(KNOWN), *normal_form_targets()]
ts = chosen(every, words)
t0 = time.time()
prepare(ts)
print(len(ts), time.time() - t0, flush=True)
from collections import Counter

c = Counter()
for t in ts:
    o = run(t.mutant, t.checks, t.results, 100)
    c["killed" if o.killed else o.reach.value + " " + o.effect.value] += 1
    if not o.killed or o.killed in ("time", "crash"):
        print(
            f"{o.killed or (o.reach.value + '|' + o.effect.value):28} {o.seconds:.1f} {t.mutant.name}  [{','.join(i.name for i in t.using)[:60]}]",
            flush=True,
        )
print(c, time.time() - t0)
