"""Nothing to load here: the plugin comes by its entry point (``pytest11``), and a plugin loaded twice is an error."""
