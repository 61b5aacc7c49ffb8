// Tables and examples of SPEC.md, which lies in a folder above.
import { existsSync, readFileSync } from 'node:fs';

function find() {
  let at = new URL('../', import.meta.url);
  for (let i = 0; i < 4; i += 1) {
    const file = new URL('SPEC.md', at);
    if (existsSync(file)) return readFileSync(file, 'utf8');
    at = new URL('../', at);
  }
  throw new Error('SPEC.md is in no folder above');
}

export const SPEC = find();

/**
 * A table of vectors, as objects; code marks are taken off.
 * @param {string} name
 * @returns {Record<string, string>[]}
 */
export function vectors(name) {
  const lines = SPEC.slice(SPEC.indexOf(`<!-- vectors: ${name} -->`))
    .split('\n')
    .slice(1);
  const rows = lines.slice(
    0,
    lines.findIndex((line) => !line.startsWith('|')),
  );
  const cells = (/** @type {string} */ line) =>
    line
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim());
  const heads = cells(rows[0]);
  return rows
    .slice(2)
    .map((row) => Object.fromEntries(cells(row).map((cell, i) => [heads[i], cell.replace(/`/g, '')])));
}

/** The text of a fenced block. @param {string} mark after the three ticks */
export function block(mark) {
  const begin = SPEC.indexOf(`\`\`\`${mark}\n`);
  if (begin === -1) throw new Error(`no block ${mark}`);
  const text = SPEC.slice(begin + mark.length + 4);
  return text.slice(0, text.indexOf('\n```'));
}

/** @param {string} name */
export const hexBlock = (name) => Buffer.from(block(`hex vector=${name}`).replace(/\s/g, ''), 'hex');

/** Bytes of the examples of a kind as they are stored: without white space. @param {string} kind */
export function examples(kind) {
  const parts = SPEC.split(`\`\`\`json schema=${kind}\n`).slice(1);
  return parts.map((part) => Buffer.from(JSON.stringify(JSON.parse(part.slice(0, part.indexOf('\n```'))))));
}
