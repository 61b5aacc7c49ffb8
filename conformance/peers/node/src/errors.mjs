// Errors of section 13 (ERR-1): one class, one table of codes.

/** @type {Record<string, {family: string, retryable: boolean}>} */
export const CODES = Object.fromEntries(
  [
    ['format', 'malformed_record malformed_part malformed_row malformed_shard limit_exceeded'],
    ['unsupported', 'unsupported_protocol unsupported_feature unsupported_codec unsupported_dtype'],
    [
      'integrity',
      'size_mismatch digest_mismatch broken_chain wrong_stream bad_signature missing_object wrong_base state_mismatch',
    ],
    ['path', 'stream_not_found version_not_found path_lost'],
    ['commit', 'conflict fenced lease_held outcome_unknown'],
    [
      'store',
      'object_not_found object_exists precondition_failed store_unavailable store_denied store_unfit invalid_key',
    ],
    ['input', 'invalid_argument invalid_state source_changed target_mismatch target_busy missing_dependency'],
    ['deadline', 'deadline_exceeded'],
  ].flatMap(([family, codes]) => codes.split(' ').map((code) => [code, { family, retryable: false }])),
);
for (const code of ['lease_held', 'outcome_unknown', 'store_unavailable', 'deadline_exceeded']) {
  CODES[code].retryable = true;
}

/** A failure under one of the codes of section 13. */
export class DeltawireError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{cause?: unknown}} [options]
   */
  constructor(code, message, options) {
    super(`${code}: ${message}`, options);
    if (!(code in CODES)) throw new TypeError(`no such code: ${code}`);
    this.name = 'DeltawireError';
    this.code = code;
    this.retryable = CODES[code].retryable;
    /** @type {Set<string>} codecs of the rows that are no good */
    this.codecs = new Set();
  }
}

/**
 * @param {string} code
 * @param {string} message
 * @param {unknown} [cause]
 * @returns {never}
 */
export function fail(code, message, cause) {
  throw new DeltawireError(code, message, cause === undefined ? undefined : { cause });
}

/**
 * Whether an error is a DeltawireError, and has one of the codes if any are given.
 * @param {unknown} error
 * @param {...string} codes
 */
export function isCode(error, ...codes) {
  return error instanceof DeltawireError && (codes.length === 0 || codes.includes(error.code));
}

/**
 * Does work on a row, and notes its codec on what is wrong with it (RNK-6).
 * @template T
 * @param {string} codec
 * @param {() => T} work
 * @returns {T}
 */
export function ofCodec(codec, work) {
  try {
    return work();
  } catch (error) {
    if (error instanceof DeltawireError) error.codecs.add(codec);
    throw error;
  }
}
