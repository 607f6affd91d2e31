"""One event loop for all the calls that share a process, so that what a handler
keeps of it, such as a connection, is of use to the next. It turns between calls
as well: tasks that a call has left go on."""

sandbox_host = True


class Loop:
    def __init__(self):
        self._loop = None

    def run(self, coroutine):
        """Runs a coroutine to its end, as asyncio.run does."""
        import asyncio

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop.run_until_complete(coroutine)

    def wait(self, descriptor):
        """Returns when there is something to read."""
        if self._loop is None or self._loop.is_closed():
            import select

            select.select([descriptor], [], [])
            return
        self._loop.run_until_complete(self._readable(descriptor))

    async def _readable(self, descriptor):
        import asyncio

        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_reader(descriptor, lambda: ready.done() or ready.set_result(None))
        try:
            await ready
        finally:
            loop.remove_reader(descriptor)
