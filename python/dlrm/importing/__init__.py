"""Any click log to dataset files: what `dlrm-data import` runs (docs/import.md). Needs pyarrow and PyYAML beside
what dlrm.dataset needs."""
