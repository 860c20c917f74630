"""What a command says where an extra of the installation is missing."""

from __future__ import annotations

import pytest

from trimtab import cli
from trimtab.base.error import install_command


@pytest.mark.parametrize(
    ("module", "known"), [("altair", True), ("vl_convert", True), ("x", False)]
)
def test_a_page_without_charts_names_the_extra(
    module: str,
    known: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def invoke(_context: object) -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(cli.trimtab, "invoke", invoke)
    if not known:
        with pytest.raises(ModuleNotFoundError):
            cli.main(["status"])
        return
    with pytest.raises(SystemExit) as ended:
        cli.main(["status"])
    assert ended.value.code == 2
    assert install_command("charts") in capsys.readouterr().err
