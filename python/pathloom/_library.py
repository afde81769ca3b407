"""Finds libpathloom, and declares the records and functions of pathloom.h.

The tables below have the names and the order of the header; tests/test_pathloom.py
compares them.
"""

from __future__ import annotations

import ctypes
import os
import threading
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
)
from typing import Any, Callable

SONAME = "libpathloom.so.0.1"
OK, CANCELLED = 0, 20


class PathloomError(Exception):
    """A call failed. `status` is the name of the status, such as "ERR_NOT_FOUND"."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class Record(Structure):
    """A record of the header. Texts become str, lists become Python lists."""

    # a list and the member with its length, which is left out
    lists: dict[str, str] = {}

    def row(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, *_ in self._fields_:
            if name not in self.lists.values():
                out[name] = self._value(name)
        return out

    def _value(self, name: str) -> Any:
        value = getattr(self, name)
        if name in self.lists:
            n = getattr(self, self.lists[name])
            return [_plain(value[i]) for i in range(n)] if value else []
        return bool(value) if name.startswith(("is_", "has_", "by_")) else _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.row() if isinstance(value, Record) else value


def _record(name: str, fields: str, lists: dict[str, str] | None = None, **types: Any) -> Any:
    """Makes a record from "type: member member; type: member"."""
    known = {
        "text": c_char_p,
        "int": c_int,
        "i64": c_int64,
        "u64": c_uint64,
        "size": c_size_t,
        "real": c_double,
        "name": c_char * 64,
        "message": c_char * 1024,
        "floats": POINTER(c_float),
        "reals": POINTER(c_double),
        "texts": POINTER(c_char_p),
        "u64s": POINTER(c_uint64),
        "pointer": c_void_p,
        "stops": c_char_p * 4,
        **types,
    }
    members = []
    for part in fields.split(";"):
        kind, names = part.split(":")
        members += [(member, known[kind.strip()]) for member in names.split()]
    return type(name, (Record,), {"_fields_": members, "lists": lists or {}})


Error = _record("Error", "int: status; message: message")
RunInfo = _record(
    "RunInfo",
    "text: folder config; u64: n_commits; int: n_homes is_training is_finished; text: newest",
)
Arm = _record(
    "Arm",
    "text: name; int: is_mixture n_paths n_replicas n_modules; u64: path_params total_params;"
    "int: vocab width n_blocks n_heads n_kv_heads head_size ffn context is_tied;"
    "real: rope_theta norm_eps",
)
Contribution = _record(
    "Contribution",
    "text: worker device codec; i64: path replica phase;"
    "u64: first_sample n_samples n_tokens; real: loss seconds norm weight",
)
VersionInfo = _record(
    "VersionInfo",
    "text: module; u64: number; text: hash parent method; real: lr momentum; u64: n_params;"
    "real: params_norm update_norm; i64: wall_ms; int: has_params; size: n_contributions;"
    "list: contributions",
    {"contributions": "n_contributions"},
    list=POINTER(Contribution),
)
Contributor = _record(
    "Contributor",
    "text: worker device; i64: path replica; u64: n_samples n_tokens n_versions;"
    "real: seconds loss share",
)
Tag = _record(
    "Tag",
    "text: name arm note; i64: phase wall_ms; size: n_modules; texts: modules; u64s: numbers",
    {"modules": "n_modules", "numbers": "n_modules"},
)
Path = _record(
    "Path", "text: name worker; i64: n_phases; u64: n_samples n_tokens; real: loss seconds"
)
Phase = _record(
    "Phase",
    "text: arm; i64: phase n_phases from_ms at_ms; int: n_paths n_done;"
    "real: loss bits_per_byte n_tokens tokens_per_second;"
    "i64: n_versions n_audits n_audits_differed n_expired n_restarts",
)
Tensor = _record("Tensor", "text: name; int: rows cols; floats: values")
ModelOptions = _record("ModelOptions", "text: path arm tag route precision; int: n_threads")
GenerateOptions = _record(
    "GenerateOptions",
    "int: max_tokens; real: temperature; int: top_k; real: top_p min_p; u64: seed; stops: stop",
)
Generated = _record(
    "Generated",
    "name: path; int: is_stopped n_prompt n_tokens; real: prompt_seconds decode_seconds",
)
Score = _record("Score", "name: path; real: nats; u64: n_tokens n_bytes; real: bits_per_byte")
Route = _record(
    "Route",
    "text: path why; int: by_likelihood n_tokens n_seen; real: margin_nats; int: n_paths;"
    "texts: names; reals: nats posteriors costs",
    dict.fromkeys(["names", "nats", "posteriors", "costs"], "n_paths"),
)
TrainOptions = _record(
    "TrainOptions",
    "text: text folder; int: vocab width n_heads n_blocks ffn context batch steps;"
    "real: lr weight_decay valid_share; u64: max_bytes seed; int: n_threads;"
    "text: backend precision; pointer: progress progress_context",
)
TrainerInfo = _record(
    "TrainerInfo",
    "u64: n_params; text: device;"
    "u64: train_documents train_tokens valid_documents valid_tokens; int: steps_done steps",
)
Step = _record("Step", "int: step; real: loss grad_norm lr; u64: n_tokens")

Handle = c_void_p
NameFn = CFUNCTYPE(c_int, c_void_p, c_char_p)
PieceFn = CFUNCTYPE(c_int, c_void_p, POINTER(c_char), c_size_t)


def _fn(record: Any) -> Any:
    return CFUNCTYPE(c_int, c_void_p, POINTER(record))


_handle, _error = POINTER(Handle), POINTER(Error)
# name: (types of the arguments before `error`); all of these return a status
_CALLS: dict[str, list[Any]] = {
    "open": [c_char_p, _handle],
    "refresh": [Handle],
    "describe": [Handle, POINTER(RunInfo)],
    "each_arm": [Handle, _fn(Arm), c_void_p],
    "each_module": [Handle, c_char_p, _fn(VersionInfo), c_void_p],
    "each_version": [Handle, c_char_p, _fn(VersionInfo), c_void_p],
    "each_contributor": [Handle, c_char_p, c_int, _fn(Contributor), c_void_p],
    "each_tag": [Handle, _fn(Tag), c_void_p],
    "each_path": [Handle, c_char_p, _fn(Path), c_void_p],
    "each_phase": [Handle, _fn(Phase), c_void_p],
    "each_path_module": [Handle, c_char_p, c_char_p, c_char_p, NameFn, c_void_p],
    "module_open": [Handle, c_char_p, _handle],
    "module_shape": [Handle, c_int, POINTER(Tensor)],
    "module_tensor": [Handle, c_int, POINTER(Tensor)],
    "model_open": [Handle, POINTER(ModelOptions), _handle],
    "model_open_folder": [c_char_p, POINTER(ModelOptions), _handle],
    "tokenize": [Handle, c_char_p, c_size_t, POINTER(c_int32), c_size_t, POINTER(c_size_t)],
    "detokenize": [Handle, POINTER(c_int32), c_size_t, c_char_p, c_size_t, POINTER(c_size_t)],
    "generate": [
        Handle,
        c_char_p,
        c_size_t,
        POINTER(GenerateOptions),
        PieceFn,
        c_void_p,
        POINTER(Generated),
    ],
    "score_text": [Handle, c_char_p, c_size_t, POINTER(Score)],
    "route_text": [Handle, c_char_p, c_size_t, POINTER(Route)],
    "trainer_open": [POINTER(TrainOptions), _handle],
    "trainer_step": [Handle, POINTER(Step)],
    "trainer_evaluate": [Handle, POINTER(c_double)],
    "trainer_save": [Handle, c_char_p, c_char_p],
}
# name: (result, types of the arguments) of functions that cannot fail
_OTHERS: dict[str, tuple[Any, list[Any]]] = {
    "version": (c_char_p, []),
    "status_name": (c_char_p, [c_int]),
    "close": (None, [_handle]),
    "module_close": (None, [_handle]),
    "module_info": (POINTER(VersionInfo), [Handle]),
    "module_n_tensors": (c_int, [Handle]),
    "model_close": (None, [_handle]),
    "model_n_paths": (c_int, [Handle]),
    "model_vocab": (c_int, [Handle]),
    "model_context": (c_int, [Handle]),
    "generate_defaults": (None, [POINTER(GenerateOptions)]),
    "train_defaults": (None, [POINTER(TrainOptions)]),
    "trainer_close": (None, [_handle]),
    "trainer_describe": (None, [Handle, POINTER(TrainerInfo)]),
}


def _load() -> ctypes.CDLL:
    """Loads the library that PATHLOOM_LIBRARY names, or else the installed one."""
    file = os.environ.get("PATHLOOM_LIBRARY", SONAME)
    try:
        loaded = ctypes.CDLL(file)
    except OSError as problem:
        raise ImportError(
            f"{file} cannot be loaded ({problem}); install pathloom, or set "
            "PATHLOOM_LIBRARY to the library's path"
        ) from problem
    for name, arguments in _CALLS.items():
        function = getattr(loaded, "pathloom_" + name)
        function.argtypes, function.restype = [*arguments, _error], c_int
    for name, (result, arguments) in _OTHERS.items():
        function = getattr(loaded, "pathloom_" + name)
        function.argtypes, function.restype = arguments, result
    return loaded


library = _load()


def call(name: str, *arguments: Any) -> None:
    """Calls a function of the library, and raises PathloomError if it fails."""
    error = Error()
    status = getattr(library, "pathloom_" + name)(*arguments, byref(error))
    if status != OK:
        word = library.pathloom_status_name(status).decode()
        raise PathloomError(word, error.message.decode("utf-8", "replace"))


class Listener:
    """Passes callbacks to a Python function, and keeps the exception that ends them."""

    def __init__(self, kind: Any, take: Callable[..., Any]) -> None:
        def hear(_context: Any, *values: Any) -> int:
            try:
                take(*values)
                return 0
            except BaseException as problem:  # also KeyboardInterrupt
                self.problem = problem
                return 1

        self.problem: BaseException | None = None
        self.fn = kind(hear)

    def call(self, name: str, *arguments: Any) -> None:
        try:
            call(name, *arguments)
        except PathloomError:
            if self.problem is not None:
                raise self.problem from None
            raise


def each(name: str, *arguments: Any) -> list[dict[str, Any]]:
    """Calls a listing function, and returns its records."""
    rows: list[dict[str, Any]] = []
    kind = _CALLS["each_" + name][-2]
    listener = Listener(kind, lambda record: rows.append(record[0].row()))
    listener.call("each_" + name, *arguments, listener.fn, None)
    return rows


class Owner:
    """Owns a handle. Only one thread at a time may use it, and no callback may."""

    def __init__(self, close: str) -> None:
        self.handle = Handle()
        self._close = getattr(library, "pathloom_" + close)
        self._lock = threading.Lock()
        self._user: int | None = None

    def __enter__(self) -> Handle:
        if self._user == threading.get_ident():
            raise RuntimeError("a callback may not use the object that calls it")
        self._lock.acquire()
        if not self.handle:
            self._lock.release()
            raise ValueError("the object is closed")
        self._user = threading.get_ident()
        return self.handle

    def __exit__(self, *_exception: Any) -> None:
        self._user = None
        self._lock.release()

    def close(self) -> None:
        if self._user == threading.get_ident():
            raise RuntimeError("a callback may not close the object that calls it")
        with self._lock:
            self._close(byref(self.handle))

    def __del__(self) -> None:
        if hasattr(self, "_close"):
            self._close(byref(self.handle))
