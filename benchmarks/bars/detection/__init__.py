"""How soon and how surely failures are detected: B13, B17, B18, B19, B21, B22."""
