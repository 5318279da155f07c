"""What several tests of the command line begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.command_support import toy_run


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of the toy engine that passed."""
    folder = tmp_path_factory.mktemp("good")
    done = toy_run(folder)
    assert done.returncode == 0, done.stderr + done.stdout
    return folder
