"""`uclearn ablate`: UCL without one of its ingredients."""

from __future__ import annotations

from uclearn.cli import options


def ablate(
    benchmark: options.Benchmark,
    seeds: options.Seeds = 3,
    *,
    chosen: options.Chosen,
    making: options.Making,
) -> None:
    """What each ingredient of UCL is good for: the whole, and without one of three.

    upper_freeze=false: a weight is held only by the node it leads to, not by the one it comes
    from. freeze=false: large, certain weights are not frozen (equation 5). inflate=false:
    uncertainty does not grow back, nothing is let go (equation 6).
    """
    from uclearn.paper.studies import ablations
    from uclearn.runs.resolve import resolve

    launch = making.launch()
    settings = chosen.gathered()
    preset = options.taken(settings, "preset", chosen.preset) or "best"
    configs = [
        resolve(benchmark, "ucl", preset=preset, seed=seed, overrides={**settings, **without})
        for seed in range(seeds)
        for without in ablations()
    ]
    launch.make(configs, f"ablation, {benchmark}")
