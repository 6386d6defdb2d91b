/* Times, sizes and numbers in words; all times are UTC. */

export const pad = (number) => String(number).padStart(2, "0");

export function moment(text) {
  if (!text) return "–";
  const at = new Date(text);
  return `${day(at)} ${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())}`;
}

export function span(one) {
  return `${moment(one.start)} to ${moment(one.end)} UTC`;
}

export function clock(text) {
  const at = new Date(text);
  return `${moment(text)}:${pad(at.getUTCSeconds())}.${String(at.getUTCMilliseconds()).padStart(3, "0")}`;
}

export function day(at) {
  return `${at.getUTCFullYear()}-${pad(at.getUTCMonth() + 1)}-${pad(at.getUTCDate())}`;
}

export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, bytes > 0 ? Math.floor(Math.log2(bytes) / 10) : 0);
  return `${(bytes / 1024 ** power).toFixed(power ? 1 : 0)} ${units[power]}`;
}

export function count(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/* A length of time in its two largest units. */
export function duration(seconds) {
  const parts = [];
  let left = Math.round(Math.abs(seconds));
  for (const [unit, length] of [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]]) {
    const number = Math.floor(left / length);
    left %= length;
    if (number || parts.length) parts.push(number ? `${number} ${unit}` : "");
  }
  const words = parts.slice(0, 2).filter(Boolean).join(" ") || "0 s";
  return seconds < 0 ? `−${words}` : words;
}
