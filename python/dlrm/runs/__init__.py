"""Runs of dlrm-train, by the files of their output.directory: compared, drawn, and converted for TensorBoard."""
