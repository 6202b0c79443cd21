"""Trained models in other programs (docs/model.md): exported, computed by NumPy (`trained`), and weights of others."""
