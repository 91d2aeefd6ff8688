"""How long a test waits for what must come: it only keeps a test that fails from hanging."""

#: Long enough for a machine with much else to do.
PATIENCE_SECONDS = 20.0
