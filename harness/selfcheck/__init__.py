"""The harness held to its own standard: broken records that its gate must refuse, and inputs that nobody thought of."""
