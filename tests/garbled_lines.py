"""Lines of an event log that are torn, each in another way."""

from __future__ import annotations

from tests.synthetic_run import START_NS

T = str(START_NS + 10**9).encode()
GOOD = T + b",1,worker-1,completed,77,1,,1000,\n"
GARBLED = {
    "a column short": T + b",1,worker-1,completed,77,1,,1000\n",
    "a column over": T + b",1,worker-1,completed,77,1,,1000,,\n",
    "no time": b",1,worker-1,completed,77,1,,1000,\n",
    "a time that is no number": b"17x9,1,worker-1,completed,77,1,,1000,\n",
    "an id that is no number": T + b",1,worker-1,completed,seven,1,,1000,\n",
    "a number with a fraction": T + b",1,worker-1,completed,77,1,,0.5,\n",
    "a number that is too large": T + b",1,worker-1,completed,99999999999999999999,1,,1000,\n",
    "a number that is just too large": T + b",1,worker-1,completed,9999999999999999999,1,,1000,\n",
    "an event that does not exist": T + b",1,worker-1,complet,77,1,,1000,\n",
    "no process": T + b",1,,completed,77,1,,1000,\n",
    "NUL bytes": T + b",1,worker-1,completed,77,1,,1000,\x00\x00\n",
    "NUL bytes at its beginning": b"\x00\x00" + GOOD,
    "an empty line": b"\n",
    "no text at all": b"\xff\xfe\x9c\x01\n",
    "tens of thousands of commas": b"," * 30_000 + b"\n",
    "a quotation mark": b'"' + GOOD,
    "a line that ends in the middle": T + b",1,worker-1,comp",
    "a line that only lacks its end": GOOD[:-1],
    "a block of NUL bytes, as a machine that stops leaves it": b"\x00" * 100_000,
}
