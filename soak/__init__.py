"""Long runs of everything that `make test` tries a share of: `make soak`, or `python -m soak`."""
