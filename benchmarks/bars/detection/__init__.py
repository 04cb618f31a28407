"""How soon and how surely failures are detected: B13, B17, B18, B19, B21, B22.

``__main__`` (the command), ``how_soon``, ``how_surely``, ``pauses`` (brokers that stood still),
``injector`` (whether failures are drawn as supposed).
"""
