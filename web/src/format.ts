// How the panel writes figures: three significant digits, SI prefix with a thin space, unit
// apart from the number so that it can be small and grey. Unknown is a dash, never 0.

/** A figure in two parts; unit holds the thin space before it. */
export interface Figure { text: string; unit: string }

const thin = '\u2009'
export const unknown = '–'

/**
 * Rounds to three significant digits. A value that lies exactly halfway, as 37 requests in 8 s do
 * (4.625), goes to the even neighbour: the printed report rounds so, and the same figure must not
 * read differently in two places. toPrecision alone takes the larger one.
 */
function rounded(v: number): number {
  // 30 digits tell a half from its neighbours, which differ by the 17th.
  const half = /^(-?\d\.\d\d)50{26}(e.*)$/.exec(v.toExponential(29))
  return half && Number(half[1]!.slice(-1)) % 2 === 0 ? Number(half[1]! + half[2]!) : Number(v.toPrecision(3))
}

/** Three significant digits without exponent; 0 is "0", and whole numbers keep their digits. */
export function digits(v: number): string {
  if (v === 0) return '0'
  const a = Math.abs(v)
  if (a >= 999.5) return String(Math.abs(v % 1) === 0.5 ? 2 * Math.round(v / 2) : Math.round(v))
  const r = rounded(v)
  const places = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(r))))
  return places > 6 ? r.toExponential(2) : r.toFixed(places)
}

const prefixes = [
  [1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'],
] as const

function scaled(v: number, unit: string): Figure {
  const a = Math.abs(v)
  for (const [size, prefix] of prefixes) {
    if (a >= size * 0.9995) return { text: digits(v / size), unit: thin + prefix + unit }
  }
  return { text: digits(v), unit: unit ? thin + unit : '' }
}

/** A duration given in milliseconds: µs, ms, s, min or h. */
export function duration(ms: number | null | undefined): Figure {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return { text: unknown, unit: '' }
  const a = Math.abs(ms)
  if (a === 0) return { text: '0', unit: thin + 'ms' }
  if (a < 0.9995) return { text: digits(ms * 1000), unit: thin + 'µs' }
  if (a < 999.5) return { text: digits(ms), unit: thin + 'ms' }
  if (a < 600e3) return { text: digits(ms / 1000), unit: thin + 's' }
  if (a < 7.2e6) return { text: digits(ms / 60e3), unit: thin + 'min' }
  return { text: digits(ms / 3.6e6), unit: thin + 'h' }
}

/** A count of things: whole up to 9,999, then with a prefix. */
export function count(v: number | null | undefined, unit = ''): Figure {
  if (v === null || v === undefined || !Number.isFinite(v)) return { text: unknown, unit: '' }
  if (Number.isInteger(v) && Math.abs(v) < 10_000) return { text: String(v), unit: unit ? thin + unit : '' }
  return scaled(v, unit)
}

/** A share from 0 to 1 in per cent. */
export function share(v: number | null | undefined): Figure {
  if (v === null || v === undefined || !Number.isFinite(v)) return { text: unknown, unit: '' }
  const p = v * 100
  return { text: p !== 0 && Math.abs(p) < 0.01 ? '<0.01' : digits(p), unit: thin + '%' }
}

/**
 * A value in a unit of the catalogue of signals (s, 1, bytes, tokens, W, J, Hz, C, ...) or of the
 * panel (ms, share). rate is true where it is per second.
 */
export function figure(v: number | null | undefined, unit: string, rate = false): Figure {
  if (v === null || v === undefined || !Number.isFinite(v)) return { text: unknown, unit: '' }
  if (unit.endsWith('/s')) return figure(v, unit.slice(0, -2), true)
  switch (unit) {
    case 'ms': return rate ? scaled(v / 1000, 's/s') : duration(v)
    case 's': return rate ? scaled(v, 's/s') : duration(v * 1000)
    case '1': case 'share': return rate ? scaled(v, '/s') : share(v)
    case '%': return share(v / 100)
    case 'bytes': return scaled(v, rate ? 'B/s' : 'B')
    case 'W': case 'J': case 'Hz': return scaled(v, rate ? unit + '/s' : unit)
    case 'FLOP': return scaled(v, rate ? 'FLOP/s' : 'FLOP')
    case 'C': return { text: digits(v), unit: thin + '°C' }
    case '': case 'code': return count(v)
  }
  return rate ? scaled(v, '/s') : count(v)
}

/** Both parts in one string. */
export const plain = (f: Figure) => f.text + f.unit

/** Both parts without zeros that say nothing: for round numbers, as limits and axes have them. */
export const brief = (f: Figure) => f.text.replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '') + f.unit

/** Time since the start: 0:07, 12:05, 1:02:03; tenths below a minute where asked. */
export function elapsed(ms: number | null | undefined, tenths = false): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return unknown
  const sign = ms < 0 ? '−' : ''
  let s = Math.abs(ms) / 1000
  s = tenths ? Math.round(s * 10) / 10 : Math.floor(s + 1e-9)
  const h = Math.floor(s / 3600)
  const m = Math.floor((s % 3600) / 60)
  const rest = s - h * 3600 - m * 60
  const sec = (tenths ? rest.toFixed(1) : String(Math.floor(rest))).padStart(tenths ? 4 : 2, '0')
  return sign + (h ? `${h}:${String(m).padStart(2, '0')}:${sec}` : `${m}:${sec}`)
}

/** An RFC 3339 instant in the local zone, to the second. The UTC of it belongs on hover. */
export function local(rfc: string): string {
  const d = new Date(rfc)
  return Number.isNaN(d.getTime()) ? rfc : stamp(d, false)
}

/** The same instant in UTC. */
export function utc(rfc: string): string {
  const d = new Date(rfc)
  return Number.isNaN(d.getTime()) ? rfc : stamp(d, true) + ' UTC'
}

function stamp(d: Date, z: boolean): string {
  const two = (v: number) => String(v).padStart(2, '0')
  return z
    ? `${d.getUTCFullYear()}-${two(d.getUTCMonth() + 1)}-${two(d.getUTCDate())} ${two(d.getUTCHours())}:${two(d.getUTCMinutes())}:${two(d.getUTCSeconds())}`
    : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`
}
