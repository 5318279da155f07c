"""Tests of what is done to certificates after they were issued."""
