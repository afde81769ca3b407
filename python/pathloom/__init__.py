"""Reads runs of pathloom, and computes with their models.

    import pathloom

    run = pathloom.open("run")                # it may be training
    run.versions("L1.E0")                     # DataFrame if pandas is installed
    run.tensors("L1.E0@3")                    # name -> numpy array, not copied
    run.generate("def main(", max_tokens=40)  # the path that fits the prompt answers
    run.path("p00").score(["a text", "another"])

Functions that list things return a pandas.DataFrame if pandas is installed, otherwise a
list of dictionaries; `frame=False` and `frame=True` choose. All classes may be used by
several threads, one at a time. The file pathloom.h documents every field.
"""

from __future__ import annotations

import importlib
from ctypes import byref, c_double, c_float, c_int32, c_size_t, c_void_p, cast
from ctypes import create_string_buffer
from typing import Any, Callable, Iterable, Optional

import numpy as np

from . import _library as lib
from ._library import PathloomError

__all__ = ["Model", "PathloomError", "Run", "__version__", "open", "open_model", "train"]
__version__: str = lib.library.pathloom_version().decode()


def _bytes(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _table(rows: list[dict[str, Any]], frame: Optional[bool]) -> Any:
    pandas = _module("pandas") if frame is not False else None
    if pandas is not None:
        return pandas.DataFrame(rows)
    if frame:
        raise ImportError("frame=True needs pandas; install it, or leave `frame` out")
    return rows


class _Tensors(lib.Owner):
    """An open version of a module. Arrays keep it open, and it keeps its run open."""

    def __init__(self, run: "lib.Owner", version: str) -> None:
        super().__init__("module_close")
        self.run = run
        with run as handle:
            lib.call("module_open", handle, _bytes(version), byref(self.handle))

    def info(self) -> dict[str, Any]:
        with self as handle:
            return lib.library.pathloom_module_info(handle)[0].row()

    def read(self) -> dict[str, "np.ndarray[Any, np.dtype[np.float32]]"]:
        out = {}
        tensor = lib.Tensor()
        with self.run, self as handle:  # the parameters are read by the run's reader
            for i in range(lib.library.pathloom_module_n_tensors(handle)):
                lib.call("module_tensor", handle, i, byref(tensor))
                n = tensor.rows * tensor.cols
                memory = (c_float * n).from_address(cast(tensor.values, c_void_p).value or 0)
                memory.owner = self  # the array keeps `memory`, and so this object
                values = np.frombuffer(memory, dtype=np.float32)
                values.flags.writeable = False
                shape = (tensor.rows, tensor.cols) if tensor.rows > 1 else (n,)
                out[tensor.name.decode()] = values.reshape(shape)
        return out


class Model:
    """A mixture, or one path. Parameters are read when they are first needed."""

    def __init__(self, owner: lib.Owner, run: Optional["Run"], options: dict[str, Any]) -> None:
        self._owner, self._run, self._options = owner, run, options

    @property
    def n_paths(self) -> int:
        with self._owner as handle:
            return int(lib.library.pathloom_model_n_paths(handle))

    @property
    def context(self) -> int:
        with self._owner as handle:
            return int(lib.library.pathloom_model_context(handle))

    def tokenize(self, text: str) -> "np.ndarray[Any, np.dtype[np.int32]]":
        data, n = text.encode(), c_size_t()
        tokens = np.empty(len(data) + 8, np.int32)
        with self._owner as handle:
            while True:
                at = tokens.ctypes.data_as(lib.POINTER(c_int32))
                lib.call("tokenize", handle, data, len(data), at, len(tokens), byref(n))
                if n.value <= len(tokens):
                    return tokens[: n.value].copy()
                tokens = np.empty(n.value, np.int32)

    def detokenize(self, tokens: Iterable[int]) -> str:
        ids = np.ascontiguousarray(list(tokens), np.int32)
        at, n = ids.ctypes.data_as(lib.POINTER(c_int32)), c_size_t()
        with self._owner as handle:
            lib.call("detokenize", handle, at, len(ids), None, 0, byref(n))
            text = create_string_buffer(n.value + 1)
            lib.call("detokenize", handle, at, len(ids), text, n.value, byref(n))
        return text.raw[: n.value].decode("utf-8", "replace")

    def generate(
        self,
        prompt: str,
        *,
        max_tokens: int = 64,
        temperature: float = 0.8,
        top_k: int = 40,
        top_p: float = 0.95,
        min_p: float = 0.0,
        seed: int = 0,
        stop: Iterable[str] = (),
        on_piece: Optional[Callable[[str], Any]] = None,
        details: bool = False,
    ) -> Any:
        """Continues the prompt, and returns the new text.

        `on_piece` gets each piece of text as soon as it is final. With `details` the
        result is a dictionary with the text, the path and the numbers of tokens.
        """
        stops = [_bytes(text) for text in stop]
        if len(stops) > 4:
            raise ValueError(f"there are {len(stops)} stop texts; give at most 4")
        options = lib.GenerateOptions(max_tokens, temperature, top_k, top_p, min_p, seed)
        for i, text in enumerate(stops):
            options.stop[i] = text
        pieces: list[str] = []

        def take(text: Any, n: int) -> None:
            pieces.append(text[:n].decode("utf-8", "replace"))
            if on_piece is not None:
                on_piece(pieces[-1])

        result, data = lib.Generated(), prompt.encode()
        listener = lib.Listener(lib.PieceFn, take)
        with self._owner as handle:
            listener.call(
                "generate", handle, data, len(data), byref(options), listener.fn, None, byref(result)
            )
        text = "".join(pieces)
        return {"text": text, **result.row()} if details else text

    def score(self, texts: Iterable[str], *, frame: Optional[bool] = None) -> Any:
        """How well each text is predicted: path, nats, tokens, bytes, bits per byte."""
        if isinstance(texts, str):
            texts = [texts]
        rows, score = [], lib.Score()
        with self._owner as handle:
            for text in texts:
                data = text.encode()
                lib.call("score_text", handle, data, len(data), byref(score))
                rows.append(score.row())
        return _table(rows, frame)

    def route(self, text: str) -> dict[str, Any]:
        """Which path answers a text, and why."""
        route, data = lib.Route(), text.encode()
        with self._owner as handle:
            lib.call("route_text", handle, data, len(data), byref(route))
            row: dict[str, Any] = route.row()
        names = row.pop("names")
        for key in ("nats", "posteriors", "costs"):
            row[key] = None if row[key] is None else dict(zip(names, row[key]))
        return row

    def state_dict(self) -> dict[str, Any]:
        """All tensors of a path by the names of transformers, for load_state_dict.

        The values are torch tensors if torch is installed, otherwise numpy arrays. They
        are of the newest versions that the run shows (Run.refresh); the model itself
        keeps those of the time when it was opened.
        """
        options = dict(self._options)
        if options.get("path") is None and self.n_paths == 1:
            options["path"] = "0"
        if self._run is None or options.get("path") is None:
            raise ValueError("only one path of a run has a state; use run.path(NAME)")
        torch, state = _module("torch"), {}
        for version in self._run._path_modules(**options):
            for name, values in self._run.tensors(version).items():
                state[name] = torch.from_numpy(values.copy()) if torch else values
        # transformers lists a tied output matrix, too
        state.setdefault("lm_head.weight", state.get("model.embed_tokens.weight"))
        return state

    def close(self) -> None:
        self._owner.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_exception: Any) -> None:
        self.close()


class Run:
    """A run, as it was when it was opened or refreshed."""

    def __init__(self, folder: str) -> None:
        self._owner = lib.Owner("close")
        self._mixture: Optional[Model] = None
        lib.call("open", _bytes(folder), byref(self._owner.handle))

    def refresh(self) -> None:
        """Shows the newest commit from now on."""
        with self._owner as handle:
            lib.call("refresh", handle)
        self._mixture = None

    @property
    def info(self) -> dict[str, Any]:
        info = lib.RunInfo()
        with self._owner as handle:
            lib.call("describe", handle, byref(info))
            row: dict[str, Any] = info.row()
        return row

    def _each(self, frame: Optional[bool], name: str, *arguments: Any) -> Any:
        with self._owner as handle:
            rows = lib.each(name, handle, *arguments)
        return _table(rows, frame)

    def arms(self, *, frame: Optional[bool] = None) -> Any:
        return self._each(frame, "arm")

    def modules(self, arm: Optional[str] = None, *, frame: Optional[bool] = None) -> Any:
        """The newest version of each module."""
        return self._each(frame, "module", _bytes(arm))

    def versions(self, module: str, *, frame: Optional[bool] = None) -> Any:
        """All versions of a module, from 0."""
        return self._each(frame, "version", _bytes(module))

    def blame(self, version: str, *, earlier: bool = False, frame: Optional[bool] = None) -> Any:
        """Who trained a version; with `earlier`, also all versions before it."""
        return self._each(frame, "contributor", _bytes(version), int(earlier))

    def tags(self, *, frame: Optional[bool] = None) -> Any:
        return self._each(frame, "tag")

    def paths(self, arm: Optional[str] = None, *, frame: Optional[bool] = None) -> Any:
        return self._each(frame, "path", _bytes(arm))

    def history(self, *, frame: Optional[bool] = None) -> Any:
        """One row per finished phase of each arm, in the order of time."""
        return self._each(frame, "phase")

    def tensors(self, version: str) -> dict[str, "np.ndarray[Any, np.dtype[np.float32]]"]:
        """The tensors of a version of a module ("L1.E0@3"), which cannot be written."""
        return _Tensors(self._owner, version).read()

    def _path_modules(
        self,
        path: str,
        arm: Optional[str] = None,
        tag: Optional[str] = None,
        **_others: Any,
    ) -> list[str]:
        names: list[str] = []
        listener = lib.Listener(lib.NameFn, lambda name: names.append(name.decode()))
        with self._owner as handle:
            listener.call(
                "each_path_module", handle, _bytes(arm), _bytes(path), _bytes(tag), listener.fn, None
            )
        return names

    def model(
        self,
        *,
        path: Optional[str] = None,
        arm: Optional[str] = None,
        tag: Optional[str] = None,
        route: Optional[str] = None,
        precision: Optional[str] = None,
        threads: int = 0,
    ) -> Model:
        """Opens the mixture, or one of its paths, in the versions of this moment."""
        options = {"path": path, "arm": arm, "tag": tag}
        owner = lib.Owner("model_close")
        how = lib.ModelOptions(
            *(_bytes(text) for text in (path, arm, tag, route, precision)), threads
        )
        with self._owner as handle:
            lib.call("model_open", handle, byref(how), byref(owner.handle))
        return Model(owner, self, options)

    def path(self, name: str, **options: Any) -> Model:
        return self.model(path=name, **options)

    def _whole(self) -> Model:
        if self._mixture is None:
            self._mixture = self.model()
        return self._mixture

    def generate(self, prompt: str, **options: Any) -> Any:
        return self._whole().generate(prompt, **options)

    def score(self, texts: Iterable[str], *, frame: Optional[bool] = None) -> Any:
        return self._whole().score(texts, frame=frame)

    def route(self, text: str) -> dict[str, Any]:
        return self._whole().route(text)

    def close(self) -> None:
        """Arrays of tensors stay valid."""
        if self._mixture is not None:
            self._mixture.close()
        self._owner = lib.Owner("close")

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_exception: Any) -> None:
        self.close()


def open(folder: str) -> Run:
    """Opens a run, which may be training."""
    return Run(folder)


def open_model(folder: str, *, precision: Optional[str] = None, threads: int = 0) -> Model:
    """Opens a model that `train`, `pathloom export` or transformers has saved."""
    owner = lib.Owner("model_close")
    how = lib.ModelOptions(None, None, None, None, _bytes(precision), threads)
    lib.call("model_open_folder", _bytes(folder), byref(how), byref(owner.handle))
    return Model(owner, None, {})


def train(
    text: str,
    out: str,
    *,
    progress: Optional[Callable[[dict[str, Any]], Any]] = None,
    **options: Any,
) -> Model:
    """Trains one model on a text file, a folder or JSON lines, and saves it in `out`/model.

    The options are those of pathloom_train_options: vocab, width, n_heads, n_blocks, ffn,
    context, batch, steps, lr, weight_decay, valid_share, max_bytes, seed, n_threads,
    backend, precision. `progress` gets a dictionary after every step.
    """
    how, step, loss = lib.TrainOptions(), lib.Step(), c_double()
    lib.library.pathloom_train_defaults(byref(how))
    known = {name for name, *_ in lib.TrainOptions._fields_} - {
        "text",
        "folder",
        "progress",
        "progress_context",
    }
    for name, value in options.items():
        if name not in known:
            raise TypeError(f"train has no option {name}; it has {', '.join(sorted(known))}")
        setattr(how, name, _bytes(value) if isinstance(value, str) else value)
    how.text, how.folder = _bytes(text), _bytes(f"{out}/data")
    trainer = lib.Owner("trainer_close")
    lib.call("trainer_open", byref(how), byref(trainer.handle))
    with trainer as handle:
        for _ in range(how.steps):
            lib.call("trainer_step", handle, byref(step))
            if progress is not None:
                progress(step.row())
        lib.call("trainer_evaluate", handle, byref(loss))
        if progress is not None:
            progress({"step": how.steps, "valid_loss": loss.value})
        lib.call("trainer_save", handle, _bytes(f"{out}/model"), b"pathloom.train")
    trainer.close()
    return open_model(f"{out}/model", threads=how.n_threads)
