"""Record format 2, and the history of the server under which the store has its identity."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("epochs_store", sa.Column("lineage", sa.Text()))
