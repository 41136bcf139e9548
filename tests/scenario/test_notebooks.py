"""The notebooks run from top to bottom; what they say of their results is asserted in them."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.filterwarnings("default")  # those of the machinery of notebooks are not ours
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    book = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in book.cells), "kept without outputs"
    NotebookClient(book, timeout=300, kernel_name="python3").execute()


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) == 3
