"""Only an image of the harness's own format has the fields that are forged."""

from __future__ import annotations

import pytest

from harness.adapters.torch_forging import forged
from harness.errors import RefusedError
from harness.model.values import RefusalCode


def test_a_file_of_a_library_has_no_field_to_forge() -> None:
    with pytest.raises(RefusedError, match="image of another format") as refused:
        forged(b"a file of tensors, as a library writes it", "flags")

    assert refused.value.code == RefusalCode.UNSUPPORTED
