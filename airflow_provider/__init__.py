"""Consistent cascades of Spark jobs under Apache Airflow: epochs, barriers, atomic publish, consistent cuts.

Importing this package imports nothing else; each room (see the docs' *architecture* page) is imported by itself.
"""

from __future__ import annotations

__version__ = "0.1.0.dev0"
