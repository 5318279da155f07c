"""Tests of signatures, with ssh-keygen and an independent DSSE reader as oracles."""
