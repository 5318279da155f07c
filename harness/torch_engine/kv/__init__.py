"""Element types of K/V rows and of other state."""
