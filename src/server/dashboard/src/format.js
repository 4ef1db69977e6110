// Numbers, times and words.
const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 });

export const count = (value) => (value === null || value === undefined ? '–'
  : whole.format(Number(value)));

// A count that may have been capped: 10,000+.
export const capped = (value, isCapped) => count(value) + (isCapped ? '+' : '');

export function rate(value) {
  if (!Number.isFinite(value)) return '–';
  if (value === 0) return '0';
  return value < 0.1 ? '< 0.1' : value < 100 ? one.format(value) : whole.format(value);
}

const units = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];

// 90061 s is "1 d 1 h"; 0.0042 s is "4.2 ms".
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return '–';
  if (seconds < 0.0995) return `${one.format(seconds * 1000)} ms`;
  if (seconds < 0.9995) return `${whole.format(seconds * 1000)} ms`;
  if (seconds < 10) return `${one.format(seconds)} s`;
  const rest = Math.round(seconds);
  const first = units.findIndex(([, size]) => rest >= size);
  const [name, size] = units[first];
  const large = Math.floor(rest / size);
  const next = units[first + 1];
  const small = next && large < 10 ? Math.floor((rest % size) / next[1]) : 0;
  return small > 0 ? `${large} ${name} ${small} ${next[0]}` : `${large} ${name}`;
}

export const milliseconds = (value) => (value === null || value === undefined ? '–'
  : duration(Number(value) / 1000));

// "3 min ago", "in 2 h".
export function ago(text, now = Date.now()) {
  const seconds = (now - Date.parse(text)) / 1000;
  if (Number.isNaN(seconds)) return '–';
  if (Math.abs(seconds) < 1.5) return 'now';
  const shown = duration(Math.abs(seconds) < 10 ? Math.round(Math.abs(seconds))
    : Math.abs(seconds));
  return seconds > 0 ? `${shown} ago` : `in ${shown}`;
}

const pad = (value, size = 2) => String(value).padStart(size, '0');

// Local time: 2026-01-31 09:30:00.
export function local(text) {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return String(text);
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ` +
    `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

export const plural = (value, word, words = `${word}s`) =>
  `${count(value)} ${Number(value) === 1 ? word : words}`;

// in_progress is "in progress".
export const words = (text) => String(text ?? '').replaceAll('_', ' ');

const hexadecimal = '[0-9a-f]';
const uuid = new RegExp(`^${hexadecimal}{8}-(${hexadecimal}{4}-){3}${hexadecimal}{12}$`, 'i');
export const isUuid = (text) => uuid.test(text);

export const queues = ['outbox', 'inbox', 'timers'];
export const states = ['ready', 'in_progress', 'scheduled', 'paused', 'failed', 'done'];

// Indents JSON without changing its numbers. Other text stays as it is.
export function indented(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let out = '';
  let depth = 0;
  let inText = false;
  const line = () => `\n${'  '.repeat(depth)}`;
  for (let i = 0; i < text.length; i += 1) {
    const c = text[i];
    if (inText) {
      out += c;
      if (c === '\\') out += text[(i += 1)];
      else if (c === '"') inText = false;
    } else if (c === '"') {
      inText = true;
      out += c;
    } else if (c === '{' || c === '[') {
      const close = c === '{' ? '}' : ']';
      const rest = text.slice(i + 1).match(/^\s*(.)/s);
      if (rest && rest[1] === close) {
        out += c + close;
        i += rest[0].length;
      } else {
        depth += 1;
        out += c + line();
      }
    } else if (c === '}' || c === ']') {
      depth -= 1;
      out += line() + c;
    } else if (c === ',') {
      out += c + line();
    } else if (c === ':') {
      out += ': ';
    } else if (!/\s/.test(c)) {
      out += c;
    }
  }
  return out;
}
