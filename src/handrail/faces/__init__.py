"""The faces that the seeds show: each a few dozen lines over a model, the executor and the runner."""
