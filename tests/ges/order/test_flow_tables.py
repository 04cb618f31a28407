"""What is remembered of flows is one sum, and each table forgets its part."""

from __future__ import annotations

from dataclasses import dataclass

from ges.order.flow_tables import FlowTables


@dataclass
class Table:
    """One that forgets all that it is asked to."""

    memory: int

    def shed(self, most: int) -> None:
        self.memory = min(self.memory, most)


def test_each_forgets_its_part() -> None:
    tables = [Table(600), Table(300), Table(0), Table(100)]
    both = FlowTables(tables)
    assert both.memory == 1000
    both.shed(1000)
    assert both.memory == 1000
    both.shed(500)
    assert [table.memory for table in tables] == [300, 150, 0, 50]
    both.shed(0)
    assert both.memory == 0
