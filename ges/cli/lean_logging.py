"""Import structlog without rich: 5 MiB of memory, for colours that no broker prints.

structlog imports rich where it is installed, as it is beside ``chordal top``. Who runs a broker
imports this module first.
"""

from __future__ import annotations

import sys

if "structlog" not in sys.modules and "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]  # whoever imports it finds none
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]
