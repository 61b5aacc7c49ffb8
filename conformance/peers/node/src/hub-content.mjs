// Storing content in a bucket of the Hub, which is done by its own client: cutting into chunks, hashing, uploading.
import { Again } from './again.mjs';
import { fail, isCode } from './errors.mjs';
import { isNoAnswer } from './http.mjs';

/** The time of one request of the client (STO-9). */
const REQUEST_MS = 120000;

/**
 * Stores bytes without giving them a name. The client would send the batch that does; it is kept from it here, since
 * STO-29 and STO-30 are the binding's affair. One attempt.
 * @param {{hub: string, token: string, bucket: string}} hub
 * @param {string} path
 * @param {Uint8Array[]} chunks
 * @returns {Promise<string>} the hash
 */
export async function storeContent({ hub, token, bucket }, path, chunks) {
  const { commitIterBucket } = await import('@huggingface/hub');
  if (token && !token.startsWith('hf_')) fail('store_denied', 'the client takes tokens that begin with hf_ only');
  let hash = '';
  /** @type {typeof fetch} */
  const guarded = async (input, init) => {
    const url = String(input);
    if (url.endsWith(`/api/buckets/${bucket}/batch`)) {
      hash = JSON.parse(String(init?.body)).xetHash;
      return Response.json({ success: true, processed: 1, succeeded: 1, failed: [] });
    }
    const response = await fetch(input, { ...init, redirect: 'error', signal: AbortSignal.timeout(REQUEST_MS) });
    // Whether a chunk is known already is answered by 404 where it is not.
    const { pathname } = new URL(url);
    if (response.ok || (response.status === 404 && pathname.includes('/v1/chunks/'))) return response;
    await response.body?.cancel();
    const said = `${pathname}: status ${response.status}`;
    if (!url.startsWith(`${hub}/api/`)) {
      // An answer of the storage. It knows nothing of buckets, and tokens are renewed before they are too old.
      throw new Again(said);
    }
    if (response.status === 401 || response.status === 403) fail('store_denied', said);
    if (response.status < 500 && response.status !== 429 && response.status !== 408) fail('store_unavailable', said);
    throw new Again(said);
  };
  const operations = [{ operation: /** @type {const} */ ('addOrUpdate'), path, content: new Blob(chunks) }];
  const steps = commitIterBucket({
    repo: /** @type {`buckets/${string}`} */ (`buckets/${bucket}`),
    accessToken: token || undefined,
    hubUrl: hub,
    title: 'deltawire',
    operations,
    fetch: guarded,
  });
  try {
    for await (const step of steps) void step;
  } catch (error) {
    if (isCode(error) || error instanceof Again || isNoAnswer(error)) throw error;
    throw new Again(`${path}: the client failed: ${/** @type {Error} */ (error).message}`, { cause: error });
  }
  if (!/^[0-9a-f]{64}$/.test(hash)) throw new Again(`${path}: no hash`);
  return hash;
}
