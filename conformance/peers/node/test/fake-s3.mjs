// A small S3 server for tests: conditional puts, ranges, listings, multi-part uploads, and faults on demand.
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';

const PAGE = 3;

export class FakeS3 {
  /** @type {Map<string, Buffer>} */
  objects = new Map();
  /** @type {Map<string, Buffer[]>} */
  uploads = new Map();
  /** @type {((method: string, key: string) => 'drop' | 'lose' | number | undefined)} what to do instead of answering */
  fault = () => undefined;
  /** Where the bytes of an object are, as far as they are elsewhere. @type {((path: string) => string) | undefined} */
  elsewhere = undefined;
  requests = 0;

  /** Starts it and points the environment at it. @param {import('node:test').TestContext} t */
  async start(t) {
    this.server = createServer((request, response) => this.handle(request, response));
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', () => resolve(null)));
    t.after(() => {
      this.server.closeAllConnections();
      this.server.close();
    });
    const { port } = /** @type {any} */ (this.server.address());
    this.port = port;
    Object.assign(process.env, {
      AWS_ENDPOINT_URL: `http://127.0.0.1:${port}`,
      AWS_ACCESS_KEY_ID: 'id',
      AWS_SECRET_ACCESS_KEY: 'secret',
    });
    return this;
  }

  /** @param {import('node:http').IncomingMessage} request @param {import('node:http').ServerResponse} response */
  async handle(request, response) {
    this.requests += 1;
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const url = new URL(/** @type {string} */ (request.url), 'http://s3');
    const key = decodeURIComponent(url.pathname).split('/').slice(2).join('/');
    const method = /** @type {string} */ (request.method);
    const fault = this.fault(method, key);
    if (fault === 'drop') return request.socket.destroy();
    const isAtHome = request.headers.host?.startsWith('127.0.0.1');
    const { authorization, 'x-amz-date': date } = request.headers;
    if (!isAtHome && (authorization || date)) return request.socket.destroy(); // no credentials there
    if (isAtHome && method === 'GET' && this.elsewhere && this.objects.has(key)) {
      response.writeHead(302, { location: this.elsewhere(url.pathname), 'content-length': 0 });
      return response.end();
    }
    const answer =
      typeof fault === 'number' ? { status: fault } : this.answer(method, key, url.searchParams, request.headers, body);
    if (fault === 'lose') return request.socket.destroy();
    const text = answer.code ? `<Error><Code>${answer.code}</Code></Error>` : (answer.body ?? '');
    const length = answer.length ?? Buffer.byteLength(text);
    response.writeHead(answer.status, { 'content-length': length, ...answer.headers });
    response.end(method === 'HEAD' ? undefined : text);
  }

  /**
   * @param {string} method
   * @param {string} key
   * @param {URLSearchParams} query
   * @param {import('node:http').IncomingHttpHeaders} headers
   * @param {Buffer} body
   * @returns {{status: number, code?: string, body?: string | Buffer, headers?: Record<string, string>, length?: number}}
   */
  answer(method, key, query, headers, body) {
    const etag = (/** @type {Buffer} */ bytes) => ({ etag: `"${createHash('md5').update(bytes).digest('hex')}"` });
    const held = this.objects.get(key);
    if (method === 'GET' && key === '') return this.list(query);
    if (method === 'POST' && query.has('uploads')) {
      this.uploads.set(key, []);
      return { status: 200, body: '<UploadId>u&amp;1</UploadId>' };
    }
    if (method === 'POST') {
      this.objects.set(key, Buffer.concat(this.uploads.get(key) ?? []));
      return { status: 200 };
    }
    if (method === 'PUT' && query.has('partNumber')) {
      /** @type {Buffer[]} */ (this.uploads.get(key))[Number(query.get('partNumber')) - 1] = body;
      return { status: 200, headers: etag(body) };
    }
    if (method === 'PUT') {
      if (headers['if-none-match'] === '*' && held) return { status: 412, code: 'PreconditionFailed' };
      if (headers['if-match'] && !held) return { status: 404, code: 'NoSuchKey' };
      if (headers['if-match'] && held && headers['if-match'] !== etag(held).etag)
        return { status: 412, code: 'PreconditionFailed' };
      this.objects.set(key, body);
      return { status: 200, headers: etag(body) };
    }
    if (method === 'DELETE') {
      if (query.has('uploadId')) this.uploads.delete(key);
      else this.objects.delete(key);
      return { status: 204 };
    }
    if (!held) return { status: 404, code: 'NoSuchKey' };
    const range = /^bytes=([0-9]+)-([0-9]+)$/.exec(headers.range ?? '');
    if (!range) return { status: 200, body: held, headers: etag(held), length: held.length };
    const [from, to] = [Number(range[1]), Number(range[2])];
    if (from >= held.length) return { status: 416, code: 'InvalidRange' };
    const part = held.subarray(from, to + 1);
    return {
      status: 206,
      body: part,
      length: part.length,
      headers: { ...etag(held), 'content-range': `bytes ${from}-${from + part.length - 1}/${held.length}` },
    };
  }

  /** @param {URLSearchParams} query */
  list(query) {
    const prefix = query.get('prefix') ?? '';
    const keys = [...this.objects.keys()].filter((key) => key.startsWith(prefix)).sort();
    const from = Number(query.get('continuation-token') ?? 0);
    const items = keys
      .slice(from, from + PAGE)
      .map(
        (key) =>
          `<Contents><Key>${encodeURIComponent(key)}</Key><Size>${this.objects.get(key)?.length}</Size></Contents>`,
      );
    const more = from + PAGE < keys.length;
    const next = more ? `<NextContinuationToken>${from + PAGE}</NextContinuationToken>` : '';
    return {
      status: 200,
      body: `<ListBucketResult><IsTruncated>${more}</IsTruncated>${next}${items.join('')}</ListBucketResult>`,
    };
  }
}
