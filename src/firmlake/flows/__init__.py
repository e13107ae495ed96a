"""The Prefect flows, as in `python -m firmlake.flows.enrich`: a wheel has them in this folder, a checkout in `flows/`.

Modules of flows import each other by their bare names, because `python flows/enrich.py` starts one of them as a script.
"""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = Path(__file__).parent
_FOLDER = str(_HERE if (_HERE / "enrich.py").exists() else _HERE.parents[2] / "flows")
__path__ = [_FOLDER]
if _FOLDER not in sys.path:
    sys.path.insert(0, _FOLDER)
