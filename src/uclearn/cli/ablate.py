"""`uclearn ablate`: UCL without one of its ingredients."""

from __future__ import annotations

from uclearn.cli import options


def ablate(
    benchmark: options.Benchmark,
    seeds: options.Seeds = 3,
    epochs: options.Epochs = None,
    tasks: options.Tasks = None,
    preset: options.Preset = None,
    settings: options.Set = None,
    config: options.Config = None,
    out: options.Out = options.DEFAULT_OUT,
    data: options.DataFolder = None,
    workers: options.Workers = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """What each ingredient of UCL is good for: the whole, and without one of three.

    upper_freeze=false: a weight is held only by the node it leads to, not by the one it comes
    from. freeze=false: large, certain weights are not frozen (equation 5). inflate=false:
    uncertainty does not grow back, nothing is let go (equation 6).
    """
    from uclearn.paper.studies import ablations
    from uclearn.runs.resolve import resolve

    launch = options.launch(out, quiet, json, data=data, workers=workers)
    chosen = options.gathered(config, settings, epochs=epochs, tasks=tasks)
    preset = options.taken(chosen, "preset", preset) or "best"
    configs = [
        resolve(benchmark, "ucl", preset=preset, seed=seed, overrides={**chosen, **without})
        for seed in range(seeds)
        for without in ablations()
    ]
    launch.make(configs, f"ablation, {benchmark}")
