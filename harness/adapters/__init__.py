"""Engines behind the seam. Reached by entry point only; each module imports what its engine needs, and nothing else."""
