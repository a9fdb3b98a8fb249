"""The schema documents itself: reference pages are made from these texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from indico_zodbrepl.cluster.parsing import schema


def entries(container: Any, title: str) -> Iterator[tuple[str, Any]]:
    for key, info in container:
        if info.issection() and info.sectiontype.isabstract():
            for kind in info.sectiontype.getsubtypenames():
                yield from entries(info.sectiontype.getsubtype(kind), kind)
        elif info.issection():
            yield from entries(info.sectiontype, info.sectiontype.name)
        else:
            yield f"{title} {key}", info


def test_every_key_and_section_is_described() -> None:
    described = {name: (info.description or "").strip() for name, info in entries(schema(), "")}
    assert 90 == len(described)
    assert [] == [name for name, text in described.items() if not text.endswith(".")]
    assert all(
        schema().gettype(kind).description
        for kind in (
            "node",
            "neo",
            "sqlite",
            "postgresql",
            "mariadb",
            "oracle",
            "indico",
            "admin",
            "watch",
            "etcd",
        )
    )


def test_every_optional_key_has_a_default_or_says_that_it_has_none() -> None:
    optional = {name: info for name, info in entries(schema(), "") if not info.minOccurs}
    assert [] == [
        name
        for name, info in optional.items()
        if info.getdefault() is None
        and not any(
            each in " ".join(info.description.split()) for each in ("No default.", "Default: ")
        )
    ]
