"""Beanstalkd, through greenstalk."""

from __future__ import annotations

import greenstalk

from stallbench.drivers.driver import Driver
from stallbench.records.endpoint import Endpoint


class BeanstalkdDriver(Driver):
    """greenstalk's clients; the protocol knows neither passwords nor the names of clients."""

    # greenstalk lets a broken socket's error through as it is.
    errors = (greenstalk.Error, OSError)

    def connect(self, endpoint: Endpoint, name: str) -> greenstalk.Client[str]:
        """Connect; raises `OSError` when the server cannot be reached."""
        return greenstalk.Client((endpoint.host, endpoint.port))

    def is_closed(self, connection: greenstalk.Client[str]) -> bool:
        """Whether its socket is closed."""
        return connection._sock.fileno() == -1


DRIVER = BeanstalkdDriver()
