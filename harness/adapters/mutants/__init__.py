"""Engines with one planted fault each, by kind; entry points of group ``harness.mutants``.

A mutant is the embedded engine with one class substituted. It says itself which check must stop it
(:class:`harness.adapters.mutants.base.Stop`); ``statecert mutants`` runs it and asks that check.
"""
