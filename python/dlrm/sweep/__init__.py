"""Sweeps over settings: `dlrm-sweep`."""
