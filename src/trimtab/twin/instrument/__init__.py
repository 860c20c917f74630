"""What a site sees of a simulated file system: benchmark outputs, telemetry, a store full of both.

Everything passes through the parsers and the store of real sites; what was really so is kept beside
it (`truth`). Nothing here changes the simulation.
"""
