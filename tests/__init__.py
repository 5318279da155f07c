"""Tests. Folders of tests are no packages; ``tests.fakes`` is one, so that every folder can use it."""
