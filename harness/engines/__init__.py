"""The seam: what an adapter owes, how adapters are found, and the child processes that they live in."""
