"""One client's conversation with its own connection to the policy server."""

import asyncio
import traceback
from collections import deque
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from speedup_patch.errors import InputError
from speedup_patch.robots import Robot
from speedup_patch.serve.chunks import Accelerator, Reply, read_state, shorten_reply
from speedup_patch.serve.journal import Journal

PREPARE_AFTER = 0.002
"""Seconds of quiet after a reply before the next decision is prepared."""
MISTAKES = (AssertionError, AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError)
"""What a mistake in code raises."""
MAX_REASON = 120
"""Bytes of a close reason; the protocol allows 123."""


@dataclass(frozen=True)
class Ending:
    """How a conversation ends: the close code, its reason and, before them, an error text for the client."""

    code: int
    reason: str
    text: str | None = None

    async def say(self, connection: Connection) -> None:
        """Closes the connection with this code and as much of the reason as fits."""
        await connection.close(self.code, self.reason.encode()[:MAX_REASON].decode(errors="ignore"))


@dataclass
class Request:
    """A request that has not been answered yet."""

    message: bytes | str | None
    sent: float
    """When it went to the policy server, in the event loop's seconds."""
    state_keys: tuple[str, ...]
    _state: Float[np.ndarray, " S"] | InputError | None = None

    def read(self) -> None:
        """Takes the state, or what is wrong with it, out of the message and lets go of the rest."""
        if self.message is None:
            return
        try:
            if isinstance(self.message, str):
                raise InputError("the observation is text, not msgpack")
            self._state = read_state(self.message, self.state_keys)
        except InputError as error:
            self._state = error
        self.message = None

    def state(self) -> Float[np.ndarray, " S"]:
        """The state in it."""
        self.read()
        if isinstance(self._state, InputError):
            raise self._state
        assert self._state is not None
        return self._state


@dataclass(frozen=True)
class Terms:
    """What every conversation of one proxy has in common."""

    robot: Robot
    state_keys: tuple[str, ...]
    minimum_rows: int
    timeout: float
    """Seconds the policy server has for an answer."""
    journal: Journal
    idle: float
    """Seconds without a request, beyond what the last chunk takes, after which a new episode begins."""


class Session:
    """Carries requests up and replies down, one request's reply after the other, until one side ends it."""

    def __init__(
        self, number: int, client: Connection, upstream: Connection, accelerator: Accelerator, terms: Terms
    ) -> None:
        self.number = number
        self._client = client
        self._upstream = upstream
        self._accelerator = accelerator
        self._terms = terms
        self._waiting: deque[Request] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._preparation: asyncio.TimerHandle | None = None
        self._rests: float | None = None
        """When the robot has run the last chunk, in the event loop's seconds; None before the first."""
        self._broken = False
        """Set when the patch has made a mistake: the policy's own replies are passed on from then on."""
        self._draining = False
        self._ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        """Set when the proxy itself ends the conversation: it shuts down, or the policy server is late."""

    def drain(self) -> None:
        """Ends the conversation as soon as nothing is left to answer."""
        self._draining = True
        self._finish_when_answered()

    async def run(self) -> None:
        """Returns when both connections are closed."""
        requests = asyncio.create_task(self._carry_requests())
        replies = asyncio.create_task(self._carry_replies())
        try:
            ending, client_ended_it = await self._first_ending(requests, replies)
        finally:
            for task in (requests, replies):
                task.cancel()
            await asyncio.gather(requests, replies, return_exceptions=True)
            self._cancel_preparation()
            if self._timer is not None:
                self._timer.cancel()
        await self._close(ending, client_ended_it)

    async def _first_ending(
        self, requests: asyncio.Task[Ending | None], replies: asyncio.Task[Ending | None]
    ) -> tuple[Ending, bool]:
        """Each direction ends when the side it reads from does; None means that the other side is the one to know."""
        running: set[asyncio.Future[Ending | None] | asyncio.Future[Ending]] = {requests, replies, self._ended}
        while True:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            if replies in done and (ending := replies.result()) is not None:
                return ending, False
            if requests in done and (ending := requests.result()) is not None:
                return ending, True
            if self._ended in done:
                return self._ended.result(), False

    async def _carry_requests(self) -> Ending | None:
        while True:
            try:
                message = await self._client.recv()
            except ConnectionClosed as closed:
                return self._client_ending(closed)
            self._cancel_preparation()
            request = Request(message, asyncio.get_running_loop().time(), self._terms.state_keys)
            self._waiting.append(request)
            if len(self._waiting) == 1:
                self._set_timer()
            try:
                await self._upstream.send(message)
            except ConnectionClosed:
                return None
            request.read()  # now, while the policy server is busy

    async def _carry_replies(self) -> Ending | None:
        while True:
            try:
                message = await self._upstream.recv()
            except ConnectionClosed as closed:
                return self._upstream_ending(closed)
            try:
                outgoing = self._answer(message)
            except InputError as error:
                self._terms.journal.fault("refused", client=self.number, error=str(error))
                return Ending(CloseCode.INTERNAL_ERROR, "error text in the previous frame", f"speedup-patch: {error}")
            try:
                await self._client.send(outgoing)
            except ConnectionClosed:
                return None
            self._finish_when_answered()
            self._prepare_soon()

    def _answer(self, message: bytes | str) -> bytes | str:
        """What goes to the client for this message of the policy server; it belongs to the oldest waiting request."""
        if not self._waiting:
            return message
        request = self._waiting.popleft()
        self._set_timer()
        self._terms.journal.upstream_seconds.observe(asyncio.get_running_loop().time() - request.sent)
        if isinstance(message, str):
            last_line = message.strip().splitlines()[-1:] or [""]
            self._terms.journal.fault("upstream_error", client=self.number, error=last_line[0][:500])
            return message
        try:
            return message if self._broken else self._shorten(message, request)
        except InputError:
            raise
        except MISTAKES:
            self._switch_off()
            return message

    def _shorten(self, message: bytes, request: Request) -> bytes:
        def observe() -> Float[np.ndarray, " S"]:
            self._reset_between_episodes(request)
            return request.state()

        reply = shorten_reply(message, self._accelerator, observe, self._terms.robot, self._terms.minimum_rows)
        self._record(reply)
        if reply.decision is not None:
            seconds = len(reply.decision.actions) / self._terms.robot.control_hz
            self._rests = asyncio.get_running_loop().time() + seconds
        return reply.message

    def _reset_between_episodes(self, request: Request) -> None:
        """openpi's protocol has no reset: an episode begins with the connection, when the robot has long been at rest,
        and when it is where no motion took it."""
        if self._rests is not None:
            idle = request.sent - self._rests > self._terms.idle
            if not idle and not self._accelerator.jumped(request.state()):
                return
            self._accelerator.reset()
            self._terms.journal.note("new_episode", client=self.number, because="idle" if idle else "jump")
        self._terms.journal.episodes += 1

    def _switch_off(self) -> None:
        """A mistake in the code of the patch: nobody is here to read it, and the robot needs its next chunk."""
        self._broken = True
        self._terms.journal.fault("patch_broken", client=self.number, error=traceback.format_exc())

    def _prepare(self) -> None:
        try:
            self._accelerator.prepare()
        except MISTAKES:
            self._switch_off()

    def _prepare_soon(self) -> None:
        """Gets ready for the next decision while the robot is busy with this one; a request that comes first waits for
        nothing, and its decision does the rest."""
        self._cancel_preparation()
        if self._broken:
            return
        self._preparation = asyncio.get_running_loop().call_later(PREPARE_AFTER, self._prepare)

    def _cancel_preparation(self) -> None:
        if self._preparation is not None:
            self._preparation.cancel()
            self._preparation = None

    def _set_timer(self) -> None:
        """Gives the oldest waiting request its deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            deadline = self._waiting[0].sent + self._terms.timeout
            self._timer = asyncio.get_running_loop().call_at(deadline, self._expire)

    def _expire(self) -> None:
        seconds = self._terms.timeout
        self._terms.journal.fault("upstream_timeout", client=self.number, seconds=seconds)
        self._end(Ending(CloseCode.BAD_GATEWAY, f"the policy server gave no answer within {seconds:g} seconds"))

    def _end(self, ending: Ending) -> None:
        if not self._ended.done():
            self._ended.set_result(ending)

    def _record(self, reply: Reply) -> None:
        journal, decision = self._terms.journal, reply.decision
        if decision is None:
            journal.fault("reply_without_actions", client=self.number)
            return
        journal.decided(decision.rate, decision.seconds, decision.reason)
        journal.rows["original"] += reply.original_rows
        journal.rows["done"] += decision.done
        journal.rows["sent"] += len(decision.actions)
        journal.rows["padded"] += reply.padded_rows

    def _finish_when_answered(self) -> None:
        if self._draining and not self._waiting:
            self._end(Ending(CloseCode.GOING_AWAY, "the proxy is shutting down"))

    def _client_ending(self, closed: ConnectionClosed) -> Ending:
        code, reason = received(closed)
        if self._waiting:  # openpi's client never says goodbye: that alone is no fault
            self._terms.journal.fault(
                "client_gone",
                client=self.number,
                code=code,
                reason=reason or str(closed),
                left=len(self._waiting),
            )
        return Ending(code if closed.rcvd else CloseCode.GOING_AWAY, reason)

    def _upstream_ending(self, closed: ConnectionClosed) -> Ending:
        code, reason = received(closed)
        self._terms.journal.fault(
            "upstream_closed",
            client=self.number,
            code=code,
            reason=reason or str(closed),
            left=len(self._waiting),
        )
        if closed.rcvd is not None:
            return Ending(code, reason)
        if closed.sent is not None:
            return Ending(CloseCode.BAD_GATEWAY, f"the policy server broke the protocol: {closed.sent.reason}")
        return Ending(CloseCode.BAD_GATEWAY, "the connection to the policy server was lost")

    async def _close(self, ending: Ending, client_ended_it: bool) -> None:
        if ending.text is not None:
            try:
                await self._client.send(ending.text)
            except ConnectionClosed as closed:
                self._terms.journal.fault("client_gone", client=self.number, reason=str(closed), left=1)
        farewell = ending if client_ended_it else Ending(CloseCode.NORMAL_CLOSURE, "")
        await asyncio.gather(ending.say(self._client), farewell.say(self._upstream))


def received(closed: ConnectionClosed) -> tuple[int, str]:
    """The close code and reason that the other side sent, as a code that may be sent on."""
    if closed.rcvd is None:
        return CloseCode.ABNORMAL_CLOSURE, ""
    sendable = closed.rcvd.code not in (CloseCode.NO_STATUS_RCVD, CloseCode.ABNORMAL_CLOSURE, CloseCode.TLS_HANDSHAKE)
    return (closed.rcvd.code if sendable else CloseCode.NORMAL_CLOSURE), closed.rcvd.reason
