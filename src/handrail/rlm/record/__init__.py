"""Trajectories: a run as lines of JSON, as `rlms` and its viewer read them."""
