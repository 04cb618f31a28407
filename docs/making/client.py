"""The page of the client library, made of its signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType

from making.markdown import NOTE, docstring


def page() -> str:
    """Return the page."""
    import ges.client
    import ges.client.aio
    import ges.client.sync

    heads = {
        ges.client: "`ges.client`: on trio",
        ges.client.aio: "`ges.client.aio`: on asyncio and uvloop",
        ges.client.sync: "`ges.client.sync`: without await",
    }
    parts = [f"# The client library\n\n{NOTE}"]
    seen: set[object] = set()
    for module, title in heads.items():
        parts.append(f"## {title}\n")
        parts += _module(module, seen)
    return "\n".join(parts)


def _module(module: ModuleType, seen: set[object]) -> Iterator[str]:
    for name in sorted(module.__all__, key=lambda name: (name != "connect", name)):
        thing = getattr(module, name)
        if thing in seen:
            yield f"### `{name}`\n\nThe same as above.\n"
            continue
        seen.add(thing)
        if inspect.isclass(thing):
            yield from _class(name, thing)
        elif callable(thing):
            yield f"### `{name}`\n\n{_signature(name, thing)}\n{docstring(thing)}"


def _class(name: str, thing: type) -> Iterator[str]:
    yield f"### `{name}`\n\n{docstring(thing)}"
    for attribute, member in vars(thing).items():
        if attribute.startswith("_") or not (member.__doc__ and hasattr(member, "__doc__")):
            continue
        if isinstance(member, property):
            yield f"#### `{name}.{attribute}`\n\n{docstring(member)}"
        elif inspect.isfunction(member):
            head = f"#### `{name}.{attribute}`\n\n{_signature(attribute, member)}"
            yield f"{head}\n{docstring(member)}"


def _signature(name: str, thing: object) -> str:
    assert callable(thing)
    signature = inspect.signature(thing)
    prefix = "async " if inspect.iscoroutinefunction(thing) else ""
    given = [_parameter(each) for key, each in signature.parameters.items() if key != "self"]
    lines = "".join(f"        {each},\n" for each in _starred(signature, given))
    result = signature.return_annotation
    arrow = "" if result is inspect.Signature.empty else f" -> {result}"
    between = f"\n{lines}    " if lines else ""
    return f"    {prefix}{name}({between}){arrow}\n"


def _parameter(parameter: inspect.Parameter) -> str:
    """Return one as it is written, but for what a default looks like that is an object."""
    stars: dict[object, str] = {
        inspect.Parameter.VAR_POSITIONAL: "*",
        inspect.Parameter.VAR_KEYWORD: "**",
    }
    text = f"{stars.get(parameter.kind, '')}{parameter.name}"
    if parameter.annotation is not parameter.empty:
        text += f": {parameter.annotation}"
    if parameter.default is parameter.empty:
        return text
    default = parameter.default
    return f"{text} = {default.__name__ if inspect.isclass(default) else repr(default)}"


def _starred(signature: inspect.Signature, given: list[str]) -> Iterator[str]:
    """Yield parameters as they are given, with the star in front of those by name alone."""
    named = [p for key, p in signature.parameters.items() if key != "self"]
    is_behind = any(p.kind is p.VAR_POSITIONAL for p in named)
    for parameter, text in zip(named, given, strict=True):
        if parameter.kind is parameter.KEYWORD_ONLY and not is_behind:
            is_behind = True
            yield "*"
        yield text
