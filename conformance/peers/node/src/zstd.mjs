// Zstandard by the WebAssembly build of libzstd in @bokuweb/zstd-wasm. Its own `decompress` makes room for what a
// frame claims; the functions underneath take a capacity, so that nothing is made room for that LIM-2 has not allowed.
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fail } from './errors.mjs';

const require = createRequire(import.meta.url);
const entry = require.resolve('@bokuweb/zstd-wasm');
await require(entry).init();
const { Module } = require(join(dirname(entry), 'module.js'));

/**
 * Calls `work` with room for the source and the result in the memory of the library.
 * @param {Uint8Array} source
 * @param {number} capacity
 * @param {(to: number, from: number) => number} work
 * @returns {Uint8Array | null} a copy of the result; null if the library refuses
 */
function withMemory(source, capacity, work) {
  const from = Module._malloc(source.length + 1);
  const to = Module._malloc(capacity + 1);
  try {
    if (from === 0 || to === 0) fail('limit_exceeded', `no memory to hold ${source.length} and ${capacity} bytes`);
    Module.HEAPU8.set(source, from);
    const size = work(to, from);
    return Module._ZSTD_isError(size) ? null : Module.HEAPU8.slice(to, to + size);
  } finally {
    Module._free(to);
    Module._free(from);
  }
}

/** @param {Uint8Array} source @param {number} [level] @returns {Uint8Array} */
export function compress(source, level = 3) {
  const capacity = Module._ZSTD_compressBound(source.length);
  const out = withMemory(source, capacity, (to, from) =>
    Module._ZSTD_compress(to, capacity, from, source.length, level),
  );
  if (out === null) throw new Error('zstd does not compress');
  return out;
}

/**
 * Decompresses to exactly `length` bytes.
 * @param {Uint8Array} source
 * @param {number} length
 * @returns {Uint8Array}
 */
export function decompress(source, length) {
  const out = withMemory(source, length, (to, from) => Module._ZSTD_decompress(to, length, from, source.length));
  if (out === null || out.length !== length) fail('malformed_part', 'a buffer that does not decompress (PRT-5)');
  return out;
}
