"""Small real implementations that tests use in place of hardware."""
