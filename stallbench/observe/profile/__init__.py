"""Records the load of a live queue as a scenario: `stallbench observe --record-profile`.

The subject of the server reads counters and sizes, `estimate` makes figures of them, `scenario_text` writes the figures. What lies between them has no
text of the server, so that no name and no payload can reach the file.
"""
