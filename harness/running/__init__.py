"""Walks the cells of a plan on a target and writes down what is seen. Observes; judges nothing."""
