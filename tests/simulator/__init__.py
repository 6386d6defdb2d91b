"""A deterministic simulation of the coordination: one seed, one history, whatever goes wrong in it.

The code that runs is the real one, on the memory store and memory tables; only the clock, the randomness and
the threads are the simulation's own. See ``docs/explanation/proof.md``.
"""
