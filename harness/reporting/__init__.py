"""Reports: one view model, made once, and three renderings of it (terminal, Markdown, HTML).

A report never computes a verdict: every decision shown was made by ``deriving`` and stands in a
certificate. Text of a record is never trusted: :mod:`harness.reporting.escape` knows each way out.
``rich``, ``jinja2`` and ``pandas`` are imported inside the functions that need them.
"""
