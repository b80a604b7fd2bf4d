"""The web application: static files and the API, which is read-only except for `/api/control`."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from mothtrap.core import jsonable
from mothtrap.core.errors import (
    ConfigError,
    ControlError,
    MothtrapError,
    QueryError,
    StepUnavailableError,
)
from mothtrap.reader.files.commits import ENDLESS
from mothtrap.report.source_lines import source_answer
from mothtrap.store.objects import is_url
from mothtrap.web import (
    answers,
    comparison,
    control_api,
    deep_api,
    events,
    figures,
    output,
    record_api,
    run_pairs,
    series,
)
from mothtrap.web.answer_cache import AnswerCache, traces_of
from mothtrap.web.listing import RunsFolder
from mothtrap.web.matrix import MOST_ROWS
from mothtrap.web.opened import OpenRun, OpenRuns
from mothtrap.web.replaying import Replays
from mothtrap.web.samples_view import samples
from mothtrap.web.static_files import INDEX, StaticFile, static_files
from mothtrap.web.trial import trial

T = TypeVar("T")
Answer = Callable[[Request], Awaitable[Response]]

THREADS = 16
"""Requests in progress; most wait, see `opened.AT_WORK`."""
MOST_CURVES = 16
FACTS = "/api/run"
BINARY = "application/octet-stream"
JSON = "application/json"


class Application:
    """API handlers for the runs of one location.

    Args:
        runs: the runs.
        replays: replays their steps.
    """

    def __init__(self, runs: RunsFolder, replays: Replays) -> None:
        self._runs, self._replays = runs, replays
        self._opened = OpenRuns()
        self._cache = AnswerCache()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="mothtrap-web")

    def routes(self) -> list[Route]:
        """Return the routes and their handlers."""
        return [
            Route("/", self._static),
            Route("/api/runs", self._caught(self._list)),
            Route("/api/runs.csv", self._caught(self._csv)),
            Route("/api/associations", self._caught(self._associations)),
            Route("/api/compare", self._caught(self._compare)),
            Route(FACTS, self._caught(self._run)),
            Route("/api/findings", self._caught(self._findings)),
            Route("/api/names", self._caught(self._names)),
            Route("/api/series", self._caught(self._series)),
            Route("/api/trial", self._caught(self._trial)),
            Route("/api/source", self._caught(self._source)),
            Route("/api/logs", self._caught(self._logs)),
            *self._record_routes(),
            Route("/api/events", self._events),
            Route("/api/samples", self._caught(self._samples)),
            Route("/api/diff", self._caught(self._diff)),
            Route("/api/ratio", self._caught(self._ratio)),
            Route("/api/control/replay", self._caught(self._replay), methods=["POST"]),
            Route("/api/control/{name}", self._caught(self._control), methods=["POST"]),
            *(
                Route(f"/api/{name}", self._caught(self._deep(make)))
                for name, make in deep_api.ANSWERS.items()
            ),
            Route("/{file:path}", self._static),
        ]

    def _record_routes(self) -> list[Route]:
        return [
            Route("/api/record", self._caught(self._record)),
            Route("/api/item", self._caught(self._item)),
            Route("/figure/{number}", self._caught(self._figure)),
        ]

    async def _static(self, request: Request) -> Response:
        found = static_files().get(request.path_params.get("file", INDEX) or INDEX)
        if found is None:
            return await _json({"error": "There is no such file."}, 404)
        return _file(request, found)

    async def _list(self, request: Request) -> Response:
        begin, query = _number(request, "begin", 0), request.query_params.get("query", "")
        sort = request.query_params.get("sort", "")
        page = await self._do(lambda: self._runs.page(begin, query=query, sort=sort))
        return await _json({"page": page, "single": self._runs.single})

    async def _compare(self, request: Request) -> Response:
        names = request.query_params.getlist("run")[: comparison.MOST_RUNS]
        scalar, most = request.query_params.get("name", ""), _number(request, "px", 600)
        return _bytes(
            await self._do(lambda: comparison.answer(self._runs, names, scalar, most=most))
        )

    async def _run(self, request: Request) -> Response:
        return await _json(await self._facts(request))

    async def _findings(self, request: Request) -> Response:
        data = await self._kept(request, lambda o: jsonable.shown(answers.findings_answer(o)))
        return Response(data, media_type=JSON)

    async def _names(self, request: Request) -> Response:
        data = await self._kept(
            request, lambda opened: jsonable.encode(opened.names(answers.names_answer))
        )
        return Response(data, media_type=JSON)

    async def _series(self, request: Request) -> Response:
        names = request.query_params.getlist("name")[:MOST_CURVES]
        begin, end = _number(request, "from", 0), _number(request, "to", ENDLESS)
        most, axis = _number(request, "px", 1200), request.query_params.get("x", "step")
        worker = _number(request, "worker", -1)
        return _bytes(
            await self._kept(
                request,
                lambda opened: series.answer(
                    opened,
                    names,
                    begin=begin,
                    end=end,
                    most=most,
                    axis=axis,
                    worker=None if worker < 0 else worker,
                ),
            ),
            request,
        )

    async def _trial(self, request: Request) -> Response:
        query, for_steps = request.query_params, _number(request, "for_steps", 1)
        curve, side, limit = (query.get(name, "") for name in ("name", "side", "limit"))
        return await _json(
            await self._of(
                request,
                lambda opened: trial(opened, curve, side=side, limit=limit, for_steps=for_steps),
            )
        )

    def _deep(self, make: deep_api.Make) -> Answer:
        async def answer(request: Request) -> Response:
            found = await self._of(request, lambda opened: make(opened, request.query_params))
            if isinstance(found, deep_api.Picture):
                return Response(found.data, media_type="image/png")
            return _bytes(found, request) if isinstance(found, bytes) else await _json(found)

        return answer

    async def _samples(self, request: Request) -> Response:
        step = _number(request, "at", 0)
        return await _json(
            await self._of(request, lambda opened: samples(opened, step, self._replays))
        )

    async def _diff(self, request: Request) -> Response:
        names = request.query_params.getlist("run")[: run_pairs.MOST_RUNS]
        of = self._runs.path  # may list a store: not in the loop of events
        return await _json(
            await self._do(lambda: run_pairs.compared([of(n) for n in names], names))
        )

    async def _ratio(self, request: Request) -> Response:
        query = request.query_params
        names, wanted = query.getlist("run"), deep_api.wanted_matrix(query)
        if len(names) != 2:
            raise ConfigError(f"a ratio needs two runs: pass `run` twice, not {len(names)} times")
        first, rows = _number(request, "first", 0), _number(request, "rows", MOST_ROWS)

        def made() -> bytes:
            paths = [self._runs.path(name) for name in names]
            return run_pairs.ratios(self._opened, paths, wanted, first, rows)

        return _bytes(await self._do(made), request)

    async def _replay(self, request: Request) -> Response:
        body, run = await _body(request), request.query_params.get("run", "")

        def replay() -> dict[str, Any]:
            return self._replays.replay(self._runs.path(run), body)

        return await _json(await asyncio.to_thread(replay))

    async def _source(self, request: Request) -> Response:
        finding = request.query_params.get("finding", "")
        return await _json(
            await self._of(request, lambda opened: source_answer(opened.run, finding))
        )

    async def _logs(self, request: Request) -> Response:
        after, most = _number(request, "after", -1), _number(request, "lines", output.MOST_LINES)

        def answer(opened: OpenRun) -> output.OutputAnswer:
            return output.answer(opened.run, after=after, most=most)

        return await _json(await self._of(request, answer))

    async def _csv(self, request: Request) -> Response:
        query = request.query_params.get("query", "")
        text = await self._do(lambda: self._runs.csv(query))
        headers = {"content-disposition": 'attachment; filename="runs.csv"'}
        return Response(text, media_type="text/csv", headers=headers)

    async def _associations(self, request: Request) -> Response:
        query = request.query_params.get("query", "")
        rows = await self._do(lambda: self._runs.associations(query))
        return await _json([row._asdict() for row in rows])

    async def _record(self, request: Request) -> Response:
        return await _json(await self._of(request, record_api.record_answer))

    async def _item(self, request: Request) -> Response:
        number = _number(request, "number", 0)
        data, kind = await self._of(request, lambda o: record_api.item_bytes(o, number))
        return Response(data, media_type=kind)

    async def _figure(self, request: Request) -> Response:
        number = deep_api.whole_number(request.path_params["number"], "the number of a figure")
        if request.query_params.get("inside") != "1":
            found = figures.frame(number, request.query_params.get("run", ""))
        else:
            figure = await self._of(
                request, lambda o: figures.read(o, record_api.item_of(o, number))
            )
            found = await self._do(lambda: figures.document(figure))  # drawing holds no run
        headers = {"content-security-policy": found.policy, "x-dns-prefetch-control": "off"}
        return Response(found.data, media_type="text/html", headers=headers)

    async def _events(self, request: Request) -> Response:
        async def look() -> events.Seen:
            if "run" in request.query_params:
                return await self._seen(request)
            return events.Seen(cursor=await self._do(self._runs.state), kind="runs")

        told = request.headers.get("last-event-id") or request.query_params.get("cursor", "")
        headers = {"x-accel-buffering": "no"}
        return StreamingResponse(
            events.stream(look, told), media_type="text/event-stream", headers=headers
        )

    async def _control(self, request: Request) -> Response:
        body, run = await _body(request), request.query_params.get("run", "")
        name = request.path_params["name"]

        def carry_out() -> control_api.Done:
            if name == "delete" and is_url(self._runs.where):
                raise ControlError("in an object store, delete runs with the store's own commands")
            return control_api.carry_out(name, self._runs.path(run), body)

        return await _json(await asyncio.to_thread(carry_out))

    async def _facts(self, request: Request) -> dict[str, Any]:
        name = request.query_params.get("run", "")
        data = await self._kept(
            request,
            lambda opened: jsonable.shown(
                answers.run_answer(opened, name, time.time(), control_api.controls)
            ),
        )
        return {**msgspec.json.decode(data), "now_s": time.time()}

    async def _seen(self, request: Request) -> events.Seen:
        """Return the state of a run, without opening a run that has ended."""
        name = request.query_params.get("run", "")

        def kept() -> events.Seen | None:
            path = self._runs.path(name)
            if path in self._opened or is_url(self._runs.where):
                return None
            found = self._cache.read(path, _about(FACTS, {}), traces_of(path))
            return None if found is None else events.seen_before(msgspec.json.decode(found))

        before = await self._do(kept)
        return await self._of(request, events.seen_of) if before is None else before

    async def _kept(self, request: Request, make: Callable[[OpenRun], bytes]) -> bytes:
        """Answer about a run; for a run that has ended, with the cached answer."""
        name = request.query_params.get("run", "")
        query = request.query_params
        about = _about(request.url.path, {k: query.getlist(k) for k in query if k != "run"})

        def answered() -> bytes:
            path = self._runs.path(name)
            traces = b"" if is_url(self._runs.where) else traces_of(path)
            found = self._cache.read(path, about, traces)
            if found is not None:
                return found
            with self._opened.at(path, traces) as opened:
                data = make(opened)
                if opened.run.state != "running" and traces == traces_of(path):
                    self._cache.write(path, about, traces, data)
            return data

        return await self._do(answered)

    async def _of(self, request: Request, work: Callable[[OpenRun], T]) -> T:
        name = request.query_params.get("run", "")

        def answered() -> T:
            with self._opened.at(self._runs.path(name)) as opened:
                return work(opened)

        return await self._do(answered)

    async def _do(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _caught(self, answer: Answer) -> Answer:
        async def safe(request: Request) -> Response:
            try:
                return await answer(request)
            except ControlError as err:
                return await _json({"error": str(err)}, 409)
            except (ConfigError, QueryError) as err:
                return await _json({"error": str(err)}, 400)
            except PermissionError as err:
                where = err.filename or "the run"
                return await _json({"error": f"No permission to read {where}."}, 403)
            except (FileNotFoundError, KeyError, StepUnavailableError) as err:
                return await _json({"error": _sentence(err)}, 404)
            except (MothtrapError, OSError) as err:
                return await _json({"error": _sentence(err)}, 503)
            except Exception as err:
                text = f"mothtrap itself failed: {type(err).__name__}: {err}"
                return await _json({"error": text}, 500)

        return safe


def application(runs: RunsFolder, replays: Replays) -> Starlette:
    """Return the ASGI application, without the gate."""
    routes = Application(runs, replays).routes()
    return Starlette(routes=routes, middleware=[Middleware(GZipMiddleware, minimum_size=2048)])


def _about(path: str, query: dict[str, list[str]]) -> str:
    """Return the key of a cached answer."""
    return f"{path}\0{sorted(query.items())}"


def _sentence(err: Exception) -> str:
    """Describe an error without its system error number."""
    if isinstance(err, OSError) and err.strerror:
        return f"{err.strerror}: {err.filename}" if err.filename else err.strerror
    return str(err)


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > control_api.MAX_BYTES:
            break
    return body


def _number(request: Request, name: str, default: int) -> int:
    return deep_api.number(request.query_params, name, default)


async def _json(value: Any, status: int = 200) -> Response:
    """Return an answer in which secrets are masked; on another thread, as that takes a while."""
    data = await asyncio.to_thread(jsonable.shown, value)
    return Response(data, status_code=status, media_type=JSON)


def _bytes(data: bytes, request: Request | None = None) -> Response:
    tag = f'"{hashlib.blake2b(data, digest_size=10).hexdigest()}"'
    if request is not None and request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag})
    return Response(data, media_type=BINARY, headers={"etag": tag})


def _file(request: Request, found: StaticFile) -> Response:
    headers = {"etag": found.tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.data, media_type=found.kind, headers=headers)


def place_of(runs: str) -> str:
    """Return the text that identifies a location of runs."""
    return runs if "://" in runs else str(Path(runs).absolute())
