"""Zstandard, which the standard library has from Python 3.14 on, and `backports.zstd` before."""

from __future__ import annotations

import io
import sys
from contextlib import suppress

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CompressionParameter = zstd.CompressionParameter
ZstdError = zstd.ZstdError
compress = zstd.compress
decompress = zstd.decompress

_PIECE = 2**20


def decompress_frames(content: bytes) -> bytes:
    """Decompress all frames of a file; the last may be cut short, as a crash leaves it.

    Raises:
        ZstdError: The bytes are damaged.
    """
    pieces = []
    with zstd.open(io.BytesIO(content)) as file, suppress(EOFError):
        while piece := file.read1(_PIECE):
            pieces.append(piece)
    return b"".join(pieces)
