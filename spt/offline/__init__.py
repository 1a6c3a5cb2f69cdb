"""Evaluation after training: the protocols of the papers on a network that stands still."""
