"""What dlrm-bench measured: drawn, and compared with prices and with PyTorch."""
