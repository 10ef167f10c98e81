from __future__ import annotations
import sys, json, time
from porism.rules.catalogue import KNOWN
from tools.mutate.targets import procedure_targets, chosen, prepare
from tools.mutate.run import run
words=sys.argv[1:]
ts=chosen(list(procedure_targets(KNOWN)), words)
t0=time.time()
prepare(ts)
print(len(ts), time.time()-t0, flush=True)
from collections import Counter
c=Counter()
for t in ts:
    o=run(t.mutant,t.checks,t.results,60)
    c["killed" if o.killed else o.reach.value+" "+o.effect.value]+=1
    if not o.killed or o.killed in ("time","crash"):
        print(f"{o.killed or (o.reach.value+'|'+o.effect.value):28} {o.seconds:.1f} {t.mutant.name}  [{','.join(i.name for i in t.using)[:60]}]", flush=True)
print(c, time.time()-t0)
