"""The ``chordal`` command. Each sub-command has a module; heavy imports happen inside them."""
