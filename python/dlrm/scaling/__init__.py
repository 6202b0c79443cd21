"""Measurements of how training scales with the number of ranks: `dlrm-scaling`."""
