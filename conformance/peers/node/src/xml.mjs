// The little of XML that answers of S3 need.

const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

/**
 * The contents of each element of a name, in order; elements of one name are not nested.
 * @param {string} xml
 * @param {string} name
 */
export function xmlValues(xml, name) {
  return [...xml.matchAll(new RegExp(`<${name}>([\\s\\S]*?)</${name}>`, 'g'))].map((match) => match[1]);
}

/** @param {string} text */
export function decodeXml(text) {
  return text.replace(/&(?:#([0-9]+)|#x([0-9a-fA-F]+)|([a-z]+));/g, (whole, decimal, hex, name) => {
    if (name) return ENTITIES[/** @type {keyof typeof ENTITIES} */ (name)] ?? whole;
    return String.fromCodePoint(decimal ? Number(decimal) : parseInt(hex, 16));
  });
}
