"""Which characters no value of a record contains."""

from __future__ import annotations

REPLACED_IN_VALUES = str.maketrans({",": ";", "\n": " ", "\r": " ", "\t": " ", '"': "'"})
"""For `str.translate`: a value of a record contains neither what separates values nor what ends a line, so that no reader needs quotes."""
