"""Text to objects and back. No other module of this room knows JSON, and none at all knows cattrs.

In: ``decode`` gives one JSON object or refuses the message; ``create`` and
``item`` give typed objects or refuse with the JSON path of what is wrong.
cattrs is lenient by default (it takes "4" for an int), so each primitive has a
strict hook.

Out: what is rare is unstructured by cattrs and dumped.  A delta is not: it is
one in a thousand of its kind, so everything but its text and number is encoded
once for its part (:class:`~.events.Template`), and the text goes through the C encoder.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring as quote
from typing import Any, NoReturn, cast, get_args, get_origin

import attrs
import cattrs
from cattrs.errors import AttributeValidationNote, IterableValidationError, IterableValidationNote
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from . import items
from .errors import Problem, Refused, problem
from .events import Deltas, Sendable
from .items import Content, Item, Message, OtherItem, OtherPart, Part
from .resource import MAX_NUMBER, Create, Json, Response, Strings, Usage, missing_or_wrong

MAX_NESTING = 64
MAX_VALUES = 200_000


def _refuse(code: str, **arguments: object) -> NoReturn:
    raise Refused(problem(code, **arguments))


# --- Decoding: strict JSON. ---


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return fields


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


def _int(digits: str) -> int:
    if len(digits) > 300:  # it may be more than a double can hold, and long ones take long to read
        _float(digits)
    return int(digits)


_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int
)
_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))  # RWS-FRM-005
dumps = _encoder.encode


def _deeper_than(value: Any, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        layer = [
            child
            for node in layer
            for child in (node.values() if type(node) is dict else node)
            if type(child) is dict or type(child) is list
        ]
        if not layer:
            return False
    return True


EMPTY = re.compile(r"\[\s*\]|\{\s*\}")


def _holds_too_many(text: str) -> bool:
    """Whether it holds more than ``MAX_VALUES``. Reading them cannot be cut into slices: so count first."""
    if _members(text) < MAX_VALUES:  # an upper bound: commas and brackets inside strings are in it
        return False
    bare = text.replace("\\\\", "").replace('\\"', "")
    if bare.count('"') > 4 * MAX_VALUES:  # a value is one string at most, its key another: four quotes
        return True
    # Exactly, then: each string cut out, and a digit put in its place.
    outside = "0".join(bare.split('"')[::2])
    return 1 + _members(outside) - len(EMPTY.findall(outside)) > MAX_VALUES


def _members(text: str) -> int:
    """Members of arrays and objects, where none of these is empty."""
    return sum(map(text.count, ",[{"))


def decode(text: str) -> dict[str, Any]:
    """Read one client message, or refuse it (RWS-ERR-010, RWS-ERR-011, RWS-ERR-016)."""
    if _holds_too_many(text):  # RWS-LIM-020
        _refuse("too_many_values", limit=MAX_VALUES)
    try:
        value = _decoder.decode(text)
        if "\\u" in text:
            dumps(value).encode()
        if text.count("{") + text.count("[") > MAX_NESTING and _deeper_than(value, MAX_NESTING):
            raise ValueError(f"it is nested deeper than {MAX_NESTING} levels")
    except UnicodeEncodeError:
        _refuse("invalid_json", why="a string holds half of a surrogate pair")
    except json.JSONDecodeError as error:
        _refuse("invalid_json", why=f"{error.msg.removesuffix(' at')} at character {error.pos}")
    except RecursionError:
        _refuse("invalid_json", why=f"it is nested deeper than {MAX_NESTING} levels")
    except ValueError as error:
        _refuse("invalid_json", why=error)
    return value if isinstance(value, dict) else _refuse("invalid_event")


# --- Structuring: typed objects, or the path of what is wrong. ---


class Wrong(ValueError):
    """A value of the wrong type, below ``path``."""

    def __init__(self, expected: str, path: str = "") -> None:
        super().__init__(expected)
        self.expected, self.path = expected, path


converter = cattrs.Converter(detailed_validation=True)


def _strict(kind: type, expected: str, ok: Callable[[Any], bool]) -> None:
    def hook(value: Any, _: object) -> Any:
        if not ok(value):
            raise Wrong(expected)
        return value

    converter.register_structure_hook(kind, hook)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= MAX_NUMBER


_strict(str, "a string", lambda value: isinstance(value, str))
_strict(bool, "a boolean", lambda value: isinstance(value, bool))
_strict(int, "an integer", lambda value: type(value) is int and _is_number(value))
_strict(float, "a number", _is_number)


def _fields(raw: Any) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise Wrong("an object")
    return raw


def _sequence(raw: Any) -> list[Any]:
    if not isinstance(raw, list):
        raise Wrong("an array")
    return raw


def _register(cls: type[Any], prepare: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> None:
    """Structure ``cls`` strictly, carry what it does not know in ``extra``, and write both back."""
    structure = make_dict_structure_fn(cls, converter, extra=override(omit=True))
    nullable = {a.name: override(omit_if_default=True) for a in attrs.fields(cls) if a.default is None}
    unstructure = make_dict_unstructure_fn(cls, converter, extra=override(omit=True), **nullable)  # type: ignore[arg-type]
    known = {a.name for a in attrs.fields(cls)} - {"extra"} | {"type"}

    def read(raw: Any, _: object) -> Any:
        sent = {name: value for name, value in raw.items() if value is not None}  # null means absent
        value = structure(prepare(sent) if prepare else sent, cls)
        extra = {name: raw[name] for name in raw if name not in known} if len(raw) > 1 else None
        return attrs.evolve(value, extra=extra) if extra else value

    def write(value: Any) -> dict[str, Any]:
        return {"type": cls.type, **unstructure(value), **value.extra}

    converter.register_structure_hook(cls, read)
    converter.register_unstructure_hook(cls, write)


def _message(raw: dict[str, Any]) -> dict[str, Any]:
    """Content given as a string is one part (RWS-ITM-023)."""
    if not isinstance(text := raw.get("content"), str):
        return raw
    kind = "output_text" if raw.get("role") == "assistant" else "input_text"
    return raw | {"content": [{"type": kind, "text": text}]}


_PARTS = {cls.type: cls for cls in items.PARTS}
_ITEMS = {cls.type: cls for cls in items.ITEMS}


def _type_of(raw: Any, default: str | None) -> str:
    sent = _fields(raw).get("type")
    kind = default if sent is None else sent
    if kind is None:
        raise KeyError("type")  # as cattrs does for a missing field
    if not isinstance(kind, str):
        raise Wrong("a string", ".type")
    return kind


def _part(raw: Any, _: object) -> Any:
    kind = _type_of(raw, None)
    cls = _PARTS.get(kind)
    return OtherPart(kind, raw) if cls is None else converter.structure(raw, cls)


def _item(raw: Any, _: object) -> Any:
    kind = _type_of(raw, Message.type)  # RWS-ITM-022
    cls = _ITEMS.get(kind)
    if cls is not None:
        return converter.structure(raw, cls)
    identity = raw.get("id")
    return OtherItem(kind, raw, identity if isinstance(identity, str) else None)  # RWS-ITM-010


def _output(raw: Any, _: object) -> Any:
    return raw if isinstance(raw, str) else converter.structure(raw, Content)


def _tuple(raw: Any, kind: Any) -> Any:
    """As cattrs reads an array, but no further than its first fault: 200,000 of them would take seconds."""
    element, read = get_args(kind)[0], list[Any]()
    structure = converter.get_structure_hook(element)
    for index, one in enumerate(_sequence(raw)):
        try:
            read.append(structure(one, element))
        except (cattrs.BaseValidationError, Wrong, KeyError) as error:
            error.add_note(IterableValidationNote("", index, element))
            raise IterableValidationError("", [error], kind) from None
    return tuple(read)


def _strings(raw: Any, _: object) -> Any:
    for key, value in _fields(raw).items():
        if not isinstance(value, str):
            raise Wrong("a string", f".{key}")
    return raw


# A class takes the hooks that are there when it is registered: so the general ones come first.
converter.register_structure_hook_func(lambda kind: cast(Any, get_origin(kind)) is tuple, _tuple)
converter.register_structure_hook_func(lambda kind: kind == Json, lambda raw, _: _fields(raw))
converter.register_structure_hook_func(lambda kind: kind == Strings, _strings)
for _cls in items.PARTS:
    _register(_cls)
converter.register_structure_hook_func(lambda kind: kind == Part, _part)
converter.register_structure_hook_func(lambda kind: kind == str | Content, _output)
for _cls in items.ITEMS:
    _register(_cls, _message if _cls is Message else None)
converter.register_structure_hook_func(lambda kind: kind == Item, _item)


def item(raw: Any, position: int) -> Item:
    """Structure the input item at ``position`` of its request, or refuse it by its path."""
    try:
        return cast(Item, converter.structure(raw, cast(Any, Item)))
    except (cattrs.BaseValidationError, Wrong, KeyError) as error:
        raise Refused(_why(error, f"input[{position}]")) from None


def create(raw: Mapping[str, Any]) -> Create:
    """Structure a ``response.create``, or refuse it by the path of its first fault (RWS-CRE-010)."""
    if raw.get("model") is None:  # RWS-CRE-022
        _refuse("missing_required_parameter", param="model")
    sent = {name: value for name, value in raw.items() if value is not None}  # RWS-CRE-004
    if isinstance(text := sent.get("input"), str):
        sent["input"] = [{"type": "message", "role": "user", "content": text}]  # RWS-CRE-002, RWS-CRE-003
    if isinstance(conversation := sent.get("conversation"), dict):
        sent["conversation"] = _identity(conversation)
    try:
        value = converter.structure(sent, Create)
    except cattrs.BaseValidationError as error:
        raise Refused(_why(error, "")) from None
    if fault := value.fault():
        raise Refused(fault)
    return value


def _identity(conversation: Mapping[str, Any]) -> str:
    if not isinstance(identity := conversation.get("id"), str):
        raise Refused(missing_or_wrong(conversation, "id", "conversation.id"))
    return identity


def _why(error: BaseException, path: str) -> Problem:
    """The first fault inside a cattrs error, with the JSON path that its notes spell (RWS-CRE-011)."""
    while isinstance(error, cattrs.BaseValidationError):
        error = error.exceptions[0]
        path += "".join(_step(note) for note in getattr(error, "__notes__", ()))
    if isinstance(error, Wrong):
        return problem("invalid_type", param=(path + error.path).lstrip("."), expected=error.expected)
    assert isinstance(error, KeyError), error
    name = str(error.args[0])
    path = path if path.endswith(name) else f"{path}.{name}"
    return problem("missing_required_parameter", param=path.lstrip("."))


def _step(note: object) -> str:
    if isinstance(note, IterableValidationNote):
        return f"[{note.index}]" if isinstance(note.index, int) else f".{note.index}"
    return f".{note.name}" if isinstance(note, AttributeValidationNote) else ""


# --- Encoding. ---

for _other in (OtherItem, OtherPart):
    converter.register_unstructure_hook(_other, lambda value: value.fields)
converter.register_unstructure_hook(Usage, lambda usage: usage.wire())


def _response(value: Response) -> dict[str, Any]:
    return {
        "id": value.id,
        "object": "response",
        "created_at": value.created_at,
        "completed_at": value.completed_at,
        "status": value.status,
        "error": value.error,
        "incomplete_details": value.incomplete_details,
        **value.echo,
        "output": [converter.unstructure(item) for item in value.output],
        "usage": value.usage and value.usage.wire(),
    }


converter.register_unstructure_hook(Response, _response)
wire = converter.unstructure  # any object of this room -> JSON values


def encode(event: Sendable) -> list[bytes]:
    """The JSON texts of an event, or of each delta of a run, as UTF-8 (RWS-FRM-001)."""
    if isinstance(event, Deltas):
        return _run(event)
    fields: dict[str, Any] = {"type": event.type}
    if event.sequence_number is not None:
        fields["sequence_number"] = event.sequence_number
    if event.stream_id is not None:  # RWS-LAN-003, RWS-LAN-004
        fields["stream_id"] = event.stream_id
    fields |= {name: wire(value) for name, value in event.fields.items()}
    return [dumps(fields).encode()]


def _run(run: Deltas) -> list[bytes]:
    template = run.template
    if not template.head:
        lane = {} if template.stream_id is None else {"stream_id": template.stream_id}
        template.head = dumps({"type": template.type, **lane, **template.fields})[:-1] + ',"delta":'
    head = template.head
    numbered = enumerate(run.texts, run.sequence_number)
    return [f'{head}{quote(text)},"sequence_number":{number}}}'.encode() for number, text in numbered]
