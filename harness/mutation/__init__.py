"""Mutants: engines with one planted fault each, run one after another, each against the check that must stop it."""
