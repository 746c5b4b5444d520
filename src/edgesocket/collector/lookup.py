"""Ask where a job is, before each connection: `edgesocket lookup` answers, the agent follows the job. Standard library.

A job that moves to another worker has another address. Whoever follows it needs no load balancer: it asks again each
time it connects.
"""

from __future__ import annotations

import errno
import json
import urllib.parse

from edgesocket.config.agent_options import split_address
from edgesocket.config.convert import Refused

ASK_S = 3.0
MOST_BYTES = 64 * 1024


class JobFinder:
    """Called, returns host and port where collectors dial the job now.

    The HTTP client of the library is large, so it is imported only where there is a job to find.

    Args:
        url: of the lookup.
        job: name of the job.
    """

    def __init__(self, url: str, job: str) -> None:
        self._url = f"{url.rstrip('/')}/jobs/{urllib.parse.quote(job, safe='')}"

    def __call__(self) -> tuple[str, int]:
        """Ask. Raises OSError with the reason, for the log."""
        import urllib.error
        import urllib.request

        try:
            with urllib.request.urlopen(self._url, timeout=ASK_S) as reply:  # noqa: S310  http(s), see the option
                endpoint = json.loads(reply.read(MOST_BYTES))["endpoint"]
            return split_address(str(endpoint))
        except urllib.error.HTTPError as error:
            with error:
                why = "it knows no such job" if error.code == 404 else f"{error.code} {error.reason}"
        except OSError as error:
            why = str(getattr(error, "reason", error))
        except (ValueError, KeyError, TypeError, Refused):
            why = "it answers with what is no endpoint"
        raise OSError(errno.EHOSTUNREACH, f"asking {self._url} where the job is: {why}")
