// Where the bus is. III_URL carries this sandbox's credential in its query, which
// every client sends as it is; but the SDK appends the paths of data channels to
// the whole address, so it gets the credential as a header instead.

/** The address and the headers for the SDK; nothing without access to the bus. */
export function bus() {
  const address = process.env.III_URL;
  if (!address) return undefined;
  const url = URL.canParse(address) ? new URL(address) : undefined;
  const token = url?.searchParams.get('token');
  if (!token) return { url: address, headers: {} };
  url.searchParams.delete('token');
  return { url: url.href, headers: { Authorization: `Bearer ${token}` } };
}
