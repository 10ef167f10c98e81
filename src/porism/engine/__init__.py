"""The engine: computes the values of tensor graphs.

The life of a computation:

    graph → parametrized constants → schedule → compiled program → run
            run/parametrize_constants  run/realize  run/program     run/backend_runners

The caches, from the first that is asked to the last:

    what                in memory, keyed by                      on disk, keyed by a digest of
    parametrized graph  graph            run/parametrize_constants
    schedule            graph, settings  run/realize             graph, settings, Porism's sources
                                                                 cache/schedule_cache
    program             schedule, backend, constant inputs
                                         run/backend_runners
    prepacked kernel    kernel, constant buffers, actions
                                         run/prepacked_constants
    compiled kernel     kernel, actions  run/program             kernel, actions, target, compiler,
                                                                 settings, sources
                                                                 cache/kernel_cache
    tuned actions       kernel, threads  tune/tuning_cache       kernel, threads, target, compiler,
                                                                 settings, sources
                                                                 tune/tuning_cache

Caches on disk are read-only to a process whose sources were edited while it runs: their key is not
known then.
"""
