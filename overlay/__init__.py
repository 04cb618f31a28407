"""overlay: identities, frames, links of several classes, transports, and the sans-IO vocabulary.

The lowest package. It knows nothing of rings or events; see ``docs/architecture.md``.
"""
