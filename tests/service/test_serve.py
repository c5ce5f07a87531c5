import asyncio
import socket

from treebandit.service.serve import listening_socket


def test_answers_are_sent_at_once():
    """Else each answer waits for the caller to acknowledge its first part, 40 ms on Linux."""

    async def option() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def connected(_, writer):
            asked = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            found.set_result(asked)
            writer.close()

        server = await asyncio.start_server(connected, sock=listening_socket("127.0.0.1", 0))
        async with server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
            asked = await found
            writer.close()
        return asked

    assert asyncio.run(option()) != 0
