#!/usr/bin/env node
// The adapter by which the conformance suite drives this implementation.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Consumer, DeltawireError, isCode, openStore, Producer, ReaderPin, Signer } from './src/index.mjs';
import { makeLimits } from './src/limits.mjs';
import { build } from './src/maintainer.mjs';
import { openForWriting, refuseUnknownFeatures } from './src/producer.mjs';
import { StreamReader } from './src/reader.mjs';
import { fork, rollback } from './src/revisit.mjs';
import { readSafetensors } from './src/safetensors.mjs';
import { sumOf } from './src/state.mjs';
import { loadHeld, saveHeld } from './src/target.mjs';
import { formatHex } from './src/u64.mjs';

const POLL_MS = 100;
const PIN_MS = 30000;
/** A call has 60 seconds; a lease is observed for no longer than this. */
const WAIT_MS = 50000;
const { name, version } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'));

/** @typedef {(line: object) => void} Print */

const hex = (/** @type {Uint8Array} */ bytes) => createHash('sha256').update(bytes).digest('hex');

/** The neutral form of what is held, from its bits. @param {import('./src/state.mjs').Held | null} held */
function neutral(held) {
  if (!held) return { version: null };
  /** @type {Record<string, object>} */
  const tensors = Object.create(null);
  for (const [ordinal, bytes] of held.tensors) {
    const { name, dtype, shape } = held.table.tensors[ordinal];
    tensors[name] = { dtype: dtype.name, shape, sha256: hex(bytes) };
  }
  const files = Object.fromEntries([...held.files].map(([file, { bytes }]) => [file, hex(bytes)]));
  return { version: held.read.record.version, state_digest: formatHex(sumOf(held)), tensors, files };
}

/** @param {string} text */
const versionOf = (text) => (text === 'latest' ? text : /^[0-9]+$/.test(text) ? Number(text) : NaN);

/** @param {string} store @param {string} target @param {any} options */
async function openConsumer(store, target, options) {
  return new Consumer(openStore(store), {
    limits: options.limits,
    publicKeys: options.public_keys,
    tensors: options.tensors,
    held: await loadHeld(target),
    note: (text) => process.stderr.write(`${text}\n`),
  });
}

/** @param {any} options */
const producerOptions = (options) => ({
  singleWriter: options.single_writer ?? false,
  absolute: options.absolute ?? false,
  ranked: options.ranked ?? false,
  signer: options.signing_key ? new Signer(readFileSync(options.signing_key)) : null,
  publicKeys: options.public_keys,
  takeOver: options.take_over ?? false,
  ttlMs: options.ttl_ms,
  holder: options.holder,
  waitMs: WAIT_MS,
});

/** A state of the input of `publish`. @param {string} folder */
async function readState(folder) {
  const input = existsSync(join(folder, 'input.json'))
    ? JSON.parse(readFileSync(join(folder, 'input.json'), 'utf8'))
    : {};
  const files = new Map();
  if (existsSync(join(folder, 'files'))) {
    for (const file of (await readdir(join(folder, 'files'))).sort())
      files.set(file, await readFile(join(folder, 'files', file)));
  }
  return {
    tensors: await readSafetensors(join(folder, 'model.safetensors')),
    aliases: Object.entries(input.aliases ?? {}).map(([alias, target]) => ({ name: alias, target: String(target) })),
    files,
    metadata: input.metadata,
  };
}

/**
 * Polls until a version is held, and shows each that is held on the way.
 * @param {Consumer} consumer
 * @param {string} target
 * @param {number} last
 * @param {Print} print
 */
async function followTo(consumer, target, last, print) {
  const step = () =>
    consumer.update(last).catch((error) => {
      if (!isCode(error, 'version_not_found')) throw error;
      return consumer.update('latest');
    });
  for (let shown = consumer.version; shown !== last;) {
    try {
      await step();
    } catch (error) {
      if (!(error instanceof DeltawireError && error.retryable)) {
        if (consumer.held && consumer.version !== shown) await saveHeld(target, consumer.held);
        throw error;
      }
    }
    if (consumer.held && consumer.version !== shown) {
      await saveHeld(target, consumer.held);
      print(neutral(consumer.held));
      shown = consumer.version;
    } else await sleep(POLL_MS);
  }
}

/** @type {Record<string, (print: Print, ...args: string[]) => Promise<void>>} */
const CALLS = {
  async describe(print) {
    print({
      contract: 1,
      name,
      version,
      spec_versions: ['0.1'],
      roles: ['consumer', 'producer', 'maintainer'],
      stores: ['disk', 's3', 'hub'],
      features: [
        'partial',
        'signatures',
        'limits',
        'anchors',
        'spans',
        'files',
        'pins',
        'lease',
        'signing',
        'absolute',
        'ranked',
        'rollback',
        'fork',
        'build',
        'pause',
      ],
      serve: true,
    });
  },

  async materialize(print, store, target, wanted, options) {
    const consumer = await openConsumer(store, target, JSON.parse(options));
    const before = consumer.version;
    try {
      await consumer.update(/** @type {number | 'latest'} */ (versionOf(wanted)));
    } finally {
      // An error leaves a consumer at the last version completed (FOL-3).
      if (consumer.held && consumer.version !== before) await saveHeld(target, consumer.held);
    }
    print(neutral(consumer.held));
  },

  async show(print, target) {
    print(neutral(await loadHeld(target)));
  },

  async follow(print, store, target, wanted, options) {
    const consumer = await openConsumer(store, target, JSON.parse(options));
    consumer.pin = new ReaderPin(consumer.store, {
      holder: `follower pid ${process.pid}`,
      ttlMs: JSON.parse(options).ttl_ms ?? PIN_MS,
      note: consumer.note,
    });
    try {
      await followTo(consumer, target, Number(wanted), print);
    } finally {
      await consumer.pin.release();
    }
  },

  async publish(print, store, input, options) {
    const { pause_after: pauseAfter, ...others } = JSON.parse(options);
    const producer = await Producer.open(openStore(store), producerOptions(others));
    try {
      for (let i = 0; ; i += 1) {
        if (i === pauseAfter) {
          print({ paused: i });
          await inputEnded();
        }
        if (!existsSync(join(input, String(i)))) break;
        const { version: published, stateDigest } = await producer.publish(await readState(join(input, String(i))));
        print({ version: published, state_digest: stateDigest });
      }
    } finally {
      await producer.close();
    }
  },

  async rollback(print, store, wanted, options) {
    const { version: published, stateDigest } = await rollback(
      openStore(store),
      Number(wanted),
      producerOptions(JSON.parse(options)),
    );
    print({ version: published, state_digest: stateDigest });
  },

  async fork(print, source, wanted, store, options) {
    const { stateDigest } = await fork(
      openStore(source),
      Number(wanted),
      openStore(store),
      producerOptions(JSON.parse(options)),
    );
    print({ version: 0, state_digest: stateDigest });
  },

  async build(print, store, options) {
    const writer = producerOptions(JSON.parse(options));
    print(await build(await openForWriting(openStore(store), writer, makeLimits()), writer.signer));
  },

  async lease(print, store, holder, options) {
    const reader = await StreamReader.open(openStore(store), makeLimits());
    refuseUnknownFeatures(reader.stream);
    const lease = await Producer.takeLease(reader, { ...producerOptions(JSON.parse(options)), holder });
    if (!lease) throw new DeltawireError('invalid_argument', 'the stream takes no lease (LSE-1)');
    await Producer.riseAboveLine(reader, lease);
    print({ holder, epoch: lease.epoch });
    const fenced = new Promise((_, reject) => {
      lease.onFenced = () => reject(new DeltawireError('fenced', 'another producer has taken the stream over (LSE-9)'));
    });
    await Promise.race([inputEnded(), fenced]);
    await lease.release();
  },
};

/** The standard input of a call, as far as its end matters. */
class Input {
  /** @type {Promise<void>} */
  ended = new Promise((resolve) => {
    this.end = resolve;
  });
}

/** @type {Input | undefined} that of the call under way, where calls are served */
let served;

/** @returns {Promise<void>} the end of standard input */
const inputEnded = () =>
  served
    ? served.ended
    : new Promise((resolve) => process.stdin.on('end', resolve).on('error', resolve).resume());

/**
 * Runs one call.
 * @param {string[]} args
 * @param {Print} print
 * @returns {Promise<number>} exit status
 */
async function run([call, ...args], print) {
  try {
    if (!Object.hasOwn(CALLS, call)) throw new Error(`no such call: ${call}`);
    await CALLS[call](print, ...args);
    return 0;
  } catch (error) {
    process.stderr.write(`${/** @type {Error} */ (error)?.stack ?? error}\n`);
    if (!(error instanceof DeltawireError)) return 2;
    print({ error: error.code });
    return 1;
  }
}

async function serve() {
  const lines = createInterface({ input: process.stdin });
  let newest = new Input();
  let before = Promise.resolve();
  lines.on('line', (line) => {
    const call = JSON.parse(line);
    if (call === null) {
      newest.end();
      return;
    }
    const input = new Input();
    newest = input;
    before = before.then(async () => {
      served = input;
      const status = await run(call, (found) => say({ line: found }));
      say({ status });
    });
  });
  await new Promise((resolve) => lines.on('close', resolve));
  newest.end();
  await before;
}

/** @param {object} line */
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

const args = process.argv.slice(2);
if (args[0] === 'serve') await serve();
else process.exitCode = await run(args, say);
