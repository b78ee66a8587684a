"""Reinforcement learning: tasks with different observations and actions, one after the other.

Reading order: catalogue (which tasks there are), simulators (one environment), environments (many,
stepped together), normalise, evaluate; then policy, rollout, ppo and session, which learn.

The environments live in worker processes that know no torch: this file imports nothing.
"""
