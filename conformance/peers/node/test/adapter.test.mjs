// The adapter, driven as the conformance suite drives it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { folder } from './helpers.mjs';

const ADAPTER = fileURLToPath(new URL('../adapter.mjs', import.meta.url));

/** @param {string[]} args @returns {import('node:child_process').ChildProcessWithoutNullStreams} */
const start = (...args) => spawn(process.execPath, [ADAPTER, ...args]);

/** @param {import('node:child_process').ChildProcess} child */
const ended = (child) => new Promise((resolve) => child.on('close', resolve));

/** A safetensors file of one tensor. @param {Uint8Array} bytes */
function safetensors(bytes) {
  const json = Buffer.from(
    JSON.stringify({ w: { dtype: 'U8', shape: [bytes.length], data_offsets: [0, bytes.length] } }),
  );
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, json, bytes]);
}

test('publish, materialize, show, follow and lease', async (t) => {
  const root = await folder(t);
  const [store, target, input, other] = ['store', 'target', 'input', 'other'].map((name) => join(root, name));
  for (const n of [0, 1, 2]) {
    await mkdir(join(input, String(n), 'files'), { recursive: true });
    await writeFile(join(input, String(n), 'model.safetensors'), safetensors(new Uint8Array(9).fill(n)));
    await writeFile(join(input, String(n), 'files', 'a.txt'), String(n));
    await writeFile(join(input, String(n), 'input.json'), JSON.stringify({ aliases: { v: 'w' }, metadata: { n } }));
  }
  const server = start('serve');
  t.after(() => server.kill());
  server.stderr.resume();
  const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]();
  const call = async (/** @type {string[]} */ ...args) => {
    server.stdin.write(`${JSON.stringify(args)}\n`);
    const output = [];
    for (;;) {
      const { line, status } = JSON.parse((await lines.next()).value);
      if (status !== undefined) return { status, output };
      output.push(line);
    }
  };
  const [described] = (await call('describe')).output;
  assert.deepEqual([described.contract, described.features.includes('ranked')], [1, true]);
  const ranked = join(root, 'ranked');
  assert.equal((await call('publish', ranked, input, '{"ranked":true}')).output.length, 3);
  assert.deepEqual(JSON.parse(await readFile(join(ranked, 'stream.json'), 'utf8')).reader_features, ['ranked']);
  assert.deepEqual(await call('materialize', store, target, 'latest', '{}'), {
    status: 1,
    output: [{ error: 'stream_not_found' }],
  });
  assert.deepEqual(await call('show', target), { status: 0, output: [{ version: null }] });
  const published = await call('publish', store, input, '{"ttl_ms":8000}');
  assert.deepEqual([published.status, published.output.map(({ version }) => version)], [0, [0, 1, 2]]);
  const zero = await call('materialize', store, target, '0', '{}');
  assert.equal(zero.output[0].state_digest, published.output[0].state_digest);
  const latest = await call('materialize', store, target, 'latest', '{}');
  assert.equal(latest.output[0].state_digest, published.output[2].state_digest);
  assert.deepEqual(latest.output[0].tensors.w.shape, [9]);
  assert.deepEqual(await call('show', target), latest);
  assert.deepEqual((await call('materialize', store, target, '1', '{}')).output, [{ error: 'invalid_argument' }]);
  assert.deepEqual((await call('materialize', store, other, 'latest', '{"limits":{"dims":0}}')).output, [
    { error: 'limit_exceeded' },
  ]);
  assert.equal((await call('nonsense')).status, 2);
  server.stdin.end();
  assert.equal(await ended(server), 0);

  const paused = start('publish', join(root, 'paused'), input, '{"pause_after":1,"single_writer":true}');
  const said = createInterface({ input: paused.stdout })[Symbol.asyncIterator]();
  assert.equal(JSON.parse((await said.next()).value).version, 0);
  assert.deepEqual(JSON.parse((await said.next()).value), { paused: 1 });
  await rm(join(input, '2'), { recursive: true });
  paused.stdin.end();
  assert.equal(JSON.parse((await said.next()).value).version, 1);
  assert.deepEqual([(await said.next()).done, await ended(paused)], [true, 0]);

  const lease = start('lease', store, 'me', '{"ttl_ms":8000}');
  const [line] = await Promise.all([createInterface({ input: lease.stdout })[Symbol.asyncIterator]().next()]);
  assert.deepEqual(JSON.parse(line.value), { holder: 'me', epoch: 1 });
  const refused = start('publish', store, input, '{}');
  assert.equal(await ended(refused), 1);
  lease.stdin.end();
  assert.equal(await ended(lease), 0);

  const follower = start('follow', store, other, '2', '{}');
  const shown = createInterface({ input: follower.stdout })[Symbol.asyncIterator]();
  assert.deepEqual(JSON.parse((await shown.next()).value), latest.output[0]);
  assert.equal(await ended(follower), 0);
});
