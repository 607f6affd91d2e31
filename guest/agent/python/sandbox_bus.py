"""Where the bus is. III_URL carries this sandbox's credential in its query, which
every client sends as it is; but the SDK appends the paths of data channels to
the whole address, so it gets the credential as a header instead."""

import os


def address():
    """The address and the headers for the SDK; (None, {}) without access to the bus."""
    url = os.environ.get("III_URL")
    if not url or "token=" not in url:
        return url or None, {}
    from urllib.parse import parse_qsl, urlencode, urlsplit  # costs a millisecond

    parts = urlsplit(url)
    fields = parse_qsl(parts.query, keep_blank_values=True)
    token = dict(fields).get("token")
    if not token:
        return url, {}
    rest = urlencode([(name, value) for name, value in fields if name != "token"])
    return parts._replace(query=rest).geturl(), {"Authorization": f"Bearer {token}"}
