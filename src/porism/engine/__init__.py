"""The engine: computes the values of tensor graphs.

The life of a computation:

    graph                     run/realize                 buffers become PARAMs
    → parametrized constants  run/parametrize_constants   varying constants become arguments
    → schedule                pipeline.schedule_graph     an ordered list of kernels
    → compiled program        run/program                 machine code, and an argument block
    → run                     run/backend_runners         one native call

A computation that ran before skips the first four steps: its run plan is found by the structure of
its graph.

The caches, with their keys:

    what                in memory                               on disk: a digest of
    run plan            structure, device, settings             -
    parametrized graph  graph                                   -
    schedule            graph, settings                         graph, settings, sources
    program             schedule, backend, constant inputs      schedule, constants, environment
    device program      schedule, backend, device               -
    prepacked kernel    backend, kernel, constants, actions     -
    compiled kernel     backend, kernel, actions                kernel, actions, environment
    tuned actions       backend, threads, kernel                kernel, threads, environment

They live in run/run_plans; run/parametrize_constants; run/realize and cache/schedule_cache;
run/backend_runners and cache/program_cache; run/prepacked_constants; run/program and
cache/kernel_cache; tune/tuning_cache. `tensor/jit/stored_replay` keeps replays of functions whose
content has a key, such as graphs of ONNX files.
The environment is target, compiler, settings and the sources of Porism. A process whose sources
were edited while it runs uses no cache on disk.
"""
